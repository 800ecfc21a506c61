# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Maps on disk: the right ones, whole, whoever writes them."""
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.registry import MODELS

import qbheat_mm
from qbheat_mm.errors import UserError
from qbheat_mm.teacher import EncoderTarget, MapFolder, Teacher, map_folder

from ..helpers.processes import run_in_two_processes
from ..helpers.teachers import (
    FLIPS,
    IDENTITY,
    MeanColors,
    dataset_of,
    names,
    read,
    write_teacher,
)


def test_a_second_run_reads_the_maps_of_the_first(teacher, images, tmp_path,
                                                  monkeypatch):
    targets = [EncoderTarget(teacher, folder=str(tmp_path)) for _ in range(2)]
    targets[0].prepare(dataset_of(images, *FLIPS), 'unused', IDENTITY)
    monkeypatch.setattr(Teacher, 'encode_images', None)
    targets[1].prepare(dataset_of(images, *FLIPS), 'unused', IDENTITY)
    means = [target.targets.standardize.mean for target in targets]
    assert torch.equal(*means)
    assert len(names(tmp_path)) == 1


# ------------------------------------------------ what decides the maps

@MODELS.register_module()
class TwoMaps(MeanColors):
    """Maps of equal shape, like the blocks of a transformer."""

    def __init__(self, out_indices=(0, ), factor=0.5, init_cfg=None):
        super().__init__(out_indices, init_cfg)
        self.factor = factor

    def forward(self, x):
        colors = torch.nn.functional.avg_pool2d(x, 8) * self.weight
        return tuple((colors, self.factor * colors)[i]
                     for i in self.out_indices)


def two_maps(folder, name, weight=1., **settings):
    network = TwoMaps(**settings)
    torch.nn.init.constant_(network.weight, weight)
    return write_teacher(folder / name, network,
                         dict(type='TwoMaps', **settings))


CHANGES = ['block', 'weights', 'settings', 'normalization', 'size',
           'version', 'loading', 'image', 'names']


@pytest.mark.parametrize('change', CHANGES)
def test_whatever_decides_the_maps_names_them(change, images, tmp_path,
                                              monkeypatch):
    data = shutil.copytree(images, tmp_path / 'images')
    options, dataset = {}, dataset_of(str(data), *FLIPS)
    path = two_maps(tmp_path, 'a.safetensors', out_indices=(1, ))
    MapFolder(Teacher(path), dataset, str(tmp_path / 'maps'))
    if change == 'block':
        options['out_indices'] = (0, )
    elif change == 'weights':
        path = two_maps(tmp_path, 'b.safetensors', 2., out_indices=(1, ))
    elif change == 'settings':
        path = two_maps(tmp_path, 'b.safetensors', factor=0.25,
                        out_indices=(1, ))
    elif change == 'normalization':
        path = write_teacher(
            tmp_path / 'b.safetensors', TwoMaps((1, )),
            dict(type='TwoMaps', out_indices=(1, )),
            type(IDENTITY)((9., ) * 3, (1., ) * 3))
    elif change == 'size':
        options['size'] = 120, 136
    elif change == 'version':
        monkeypatch.setattr(qbheat_mm, '__version__', '99')
    elif change == 'loading':
        dataset.pipeline.transforms[0].load.color_type = (
            'color_ignore_orientation')
    elif change == 'image':
        shutil.copy(data / '0.png', data / '1.png')
    elif change == 'names':
        os.rename(data / '0.png', data / '00.png')
        dataset = dataset_of(str(data), *FLIPS)
    MapFolder(Teacher(path, **options), dataset, str(tmp_path / 'maps'))
    assert len(names(tmp_path / 'maps')) == 2


def test_a_moved_teacher_keeps_its_maps(teacher, images, tmp_path):
    dataset = dataset_of(images, *FLIPS)
    moved = shutil.copy(teacher, tmp_path / 'moved.safetensors')
    for path in (teacher, moved):
        MapFolder(Teacher(str(path)), dataset, str(tmp_path / 'maps'))
    assert len(names(tmp_path / 'maps')) == 1


# ------------------------------------- several processes, runs and machines

def encode_maps(rank, folder, teacher, images):
    """Encode a block of the maps, and save what this process reads."""
    os.getpid = lambda: 7  # as in two containers
    copied = shutil.copytree(images, f'{folder}/images-{rank}')
    for number, file in enumerate(sorted(Path(copied).iterdir())):
        os.utime(file, (rank, number + rank))  # as on two machines
    maps = MapFolder(Teacher(teacher), dataset_of(copied, *FLIPS),
                     f'{folder}/maps')
    np.save(f'{folder}/{rank}.npy', read(maps))


def test_processes_share_the_work_and_the_folder(teacher, images, tmp_path):
    run_in_two_processes(encode_maps, tmp_path, teacher, images)
    alone = read(MapFolder(Teacher(teacher), dataset_of(images, *FLIPS),
                           str(tmp_path / 'alone')))
    for rank in (0, 1):
        np.testing.assert_allclose(np.load(tmp_path / f'{rank}.npy'), alone,
                                   atol=0.2)
    folder, = (tmp_path / 'maps').iterdir()
    # No file, and so no page of one, is written by two processes.
    assert names(folder) == ['00000.npy', '00001.npy']


def test_two_runs_at_once_do_not_spoil_each_others_maps(
        teacher, images, tmp_path, monkeypatch):
    """Runs of two containers, with equal ids of their processes."""
    monkeypatch.setattr(os, 'getpid', lambda: 7)
    encode = Teacher.encode_images
    second = []

    def start_another_run(self, *args):
        for number, batch in enumerate(encode(self, *args)):
            if not second and number == 0:
                second.append(None)
                second[0] = MapFolder(Teacher(teacher), dataset,
                                      str(tmp_path / 'maps'))
            yield batch

    dataset = dataset_of(images, *FLIPS)
    expected = read(MapFolder(Teacher(teacher), dataset,
                              str(tmp_path / 'alone')))
    monkeypatch.setattr(Teacher, 'encode_images', start_another_run)
    first = MapFolder(Teacher(teacher), dataset, str(tmp_path / 'maps'))
    for maps in (first, *second):
        np.testing.assert_array_equal(read(maps), expected)
    assert len(names(tmp_path / 'maps')) == 1


def test_what_a_killed_run_left_is_named(teacher, images, tmp_path, capsys):
    left = [tmp_path / 'teacher-0123456789ab.part-01234567',
            tmp_path / 'teacher-0123456789ab.npy.77']
    left[0].mkdir()
    left[1].write_text('zeros')
    MapFolder(Teacher(teacher), dataset_of(images, *FLIPS), str(tmp_path))
    printed = capsys.readouterr().out
    assert all(path.name in printed for path in left)
    assert len(names(tmp_path)) == 3


def test_a_run_that_stops_leaves_nothing(teacher, images, tmp_path,
                                         monkeypatch):
    def stop(self, *args):
        raise KeyboardInterrupt

    monkeypatch.setattr(Teacher, 'encode_images', stop)
    with pytest.raises(KeyboardInterrupt):
        MapFolder(Teacher(teacher), dataset_of(images, *FLIPS), str(tmp_path))
    assert not names(tmp_path)


def test_a_folder_that_machines_do_not_share_is_named(
        teacher, images, tmp_path, monkeypatch):
    """Before the first image is encoded."""
    monkeypatch.setattr(map_folder, 'all_gather_object',
                        lambda answer: [answer, False])
    monkeypatch.setattr(Teacher, 'encode_images', None)
    with pytest.raises(UserError, match=r'not shared .*generator\.folder'):
        MapFolder(Teacher(teacher), dataset_of(images, *FLIPS), str(tmp_path))


def test_an_incomplete_folder_is_named(teacher, images, tmp_path):
    MapFolder(Teacher(teacher), dataset_of(images, *FLIPS), str(tmp_path))
    folder, = tmp_path.iterdir()
    file, = folder.iterdir()
    np.save(file, np.load(file)[:3])
    with pytest.raises(UserError, match='incomplete'):
        MapFolder(Teacher(teacher), dataset_of(images, *FLIPS), str(tmp_path))


def test_a_full_disk_is_named(teacher, images, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, 'disk_usage',
                        lambda path: shutil._ntuple_diskusage(9, 9, 0))
    with pytest.raises(UserError, match='need 0 MiB'):
        MapFolder(Teacher(teacher), dataset_of(images, *FLIPS), str(tmp_path))
    assert not names(tmp_path)
