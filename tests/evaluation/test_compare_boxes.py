# Copyright (c) QB-Heat MM authors. All rights reserved.
"""One page says which encoder to use for boxes."""
import csv
import sys

import numpy as np
import pytest
import torch

from qbheat_mm.errors import UserError
from qbheat_mm.evaluation.comparison import BoxComparison, Precision

from ..helpers.checkpoints import MODEL, settings_of, write_checkpoint
from ..helpers.exports import prepare, write_coco
from ..helpers.tools import run_tool

pytest.importorskip('mmdet')

from mmengine.hooks import Hook  # noqa: E402
from mmengine.registry import HOOKS  # noqa: E402

from qbheat_mm.apis import compare  # noqa: E402
from qbheat_mm.evaluation import (  # noqa: E402
    compare_boxes,
    comparison_page,
    pictures,
)
from qbheat_mm.trained import load_encoder  # noqa: E402

#: With maps of strides 8 and 16.
ARCH = dict(
    stem=8, tokens=(3, 16),
    stages=[[('lite', 8, 8)], [('lite-down', 16, 8)],
            [('mf-down', 16, 16)], [('mf-down', 32, 16), ('mf', 32, 16)]],
    conv=32)


def model_of(arch):
    """Settings of a pre-training model of a Mobile-Former."""
    return dict(MODEL, backbone=dict(type='MobileFormer', arch=arch),
                predictor=dict(MODEL['predictor'], in_channels=arch['conv']))


@pytest.fixture
def encoder(tmp_path):
    """The file of a small encoder."""
    model = model_of(ARCH)
    write_checkpoint(tmp_path / 'small.pth', model, settings_of(model))
    return tmp_path / 'small.pth'


@pytest.fixture
def export(tmp_path):
    """Six images with a cat and a dog each."""
    write_coco(tmp_path / 'pets')
    return tmp_path / 'pets'


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(compare_boxes, 'STEPS', 2)
    monkeypatch.setattr(comparison_page, 'SHOWN', 2)


@HOOKS.register_module()
class Spy(Hook):
    """Keep what each run sees, and its encoder before and after."""

    def __init__(self):
        self.seen = []

    def before_train(self, runner):
        self.before = self.weights(runner)

    def after_train_iter(self, runner, batch_idx, data_batch=None,
                         outputs=None):
        self.seen.append([(sample.img_id, sample.get('flip', False))
                          for sample in data_batch['data_samples']])

    def after_train(self, runner):
        RUNS.append((self.seen, self.before, self.weights(runner)))

    def weights(self, runner):
        return {name.removeprefix('network.'): tensor.clone()
                for name, tensor in runner.model.backbone.state_dict().items()}


RUNS = []


def test_each_frozen_encoder_learns_from_the_same_batches(
        tmp_path, export, encoder, quick, monkeypatch, forget):
    prepare(tmp_path)
    with open(tmp_path / 'out/boxes.py', 'a') as file:
        file.write("custom_hooks = [dict(type='FrozenFeaturesHook'), "
                   "dict(type='Spy')]\n")
    monkeypatch.setattr(sys.modules[__name__], 'RUNS', [])
    compare(tmp_path / 'out', dict(ours=encoder), tmp_path / 'looks')
    tenth, whole, *others = RUNS
    assert [run[0] for run in others] == [tenth[0], whole[0]]
    assert [len(run[0]) for run in RUNS] == [2] * 4  # steps
    images = []
    for batches, before, after in RUNS:
        samples = {sample for batch in batches for sample in batch}
        assert not any(is_flipped for _, is_flipped in samples)
        images.append({name for name, _ in samples})
        for name, tensor in before.items():
            assert torch.equal(tensor, after[name]), name
    assert images[0] < images[1] and len(images[0]) == 1
    given = load_encoder(str(encoder)).backbone.state_dict()
    for _, before, _ in others:
        for name, tensor in given.items():
            assert torch.equal(tensor, before[name]), name
    assert tenth[1].keys() != given.keys()  # another network


def test_a_page_and_a_table_of_an_export(export, encoder, quick, capsys,
                                         tmp_path, forget):
    out = tmp_path / 'looks'
    run_tool('compare.py', export, '--out', out, '--encoders',
             f'ours={encoder}')
    page, printed = (out / 'index.html').read_text('utf-8'), (
        capsys.readouterr().out)
    for text in (page, printed):
        # A tenth of five training images is one, with two boxes.
        assert text.count('With 2 boxes, use ') == 1
        assert text.count('With 10 boxes, use ') == 1
    assert 'after 2 steps' in page
    for name in ('random weights', 'ours'):
        assert f'nearest, {name}' in page
    with open(out / 'precisions.csv', newline='') as file:
        rows = list(csv.DictReader(file))
    assert [(row['encoder'], row['boxes'], row['steps']) for row in rows] == [
        (name, count, '2') for name in ('random weights', 'ours')
        for count in ('2', '10')]


def test_the_best_of_all_boxes_comes_first():
    found = BoxComparison(9, 120, {
        'poor': {3: Precision(30., 50.), 30: Precision(39.5, 60.)},
        'good': {3: Precision(10., 20.), 30: Precision(41., 70.)}})
    assert found.advice == (
        'With 3 boxes, use poor (AP 30.0; next, good: 10.0). '
        'With 30 boxes, use good (AP 41.0; next, poor: 39.5, too close to '
        'tell).')
    table, = comparison_page.report_boxes(found).tables
    assert table.rows == [['good', '10.0', '20.0', '41.0', '70.0'],
                          ['poor', '30.0', '50.0', '39.5', '60.0']]


@pytest.mark.parametrize('name, problem', [
    ('timm/no_such_network', 'no_such_network'),
    ('gone.safetensors', "'gone.safetensors' does not exist")])
def test_unknown_encoders_are_one_line(export, tmp_path, name, problem,
                                       forget):
    with pytest.raises(SystemExit, match=f'^error: .*{problem}.*$'):
        run_tool('compare.py', export, '--out', tmp_path / 'looks',
                 '--encoders', name)
    assert not (tmp_path / 'looks').exists()  # free for the next try


def test_encoders_without_the_maps_are_refused_before_training(
        export, tmp_path, forget):
    file = tmp_path / 'coarse.pth'
    write_checkpoint(file, MODEL, settings_of())
    with pytest.raises(UserError, match='needs maps of strides'):
        compare(export, dict(coarse=file), tmp_path / 'looks')
    assert not list(tmp_path.glob('looks/runs/*/*boxes'))


def test_a_config_without_steps_is_refused(export, tmp_path):
    prepare(tmp_path, detector='mf-dec')
    with pytest.raises(UserError, match='counts epochs.*--detector gfl'):
        compare(tmp_path / 'out', {}, tmp_path / 'looks')


@pytest.mark.parametrize('stages', [-1, 3])
def test_a_config_that_trains_the_encoder_is_refused(export, tmp_path,
                                                     stages):
    prepare(tmp_path)
    with open(tmp_path / 'out/boxes.py', 'a') as file:
        file.write(f"model['backbone'] = dict(frozen_stages={stages})\n")
    with pytest.raises(UserError, match=f'frozen_stages={stages} .*boxes.py'):
        compare(tmp_path / 'out', {}, tmp_path / 'looks')


def test_boxes_without_mmdet_are_one_line(export, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, 'qbheat_mm.evaluation.compare_boxes')
    monkeypatch.delattr('qbheat_mm.evaluation.compare_boxes')
    monkeypatch.setitem(sys.modules, 'mmdet.registry', None)
    with pytest.raises(UserError, match=r"mmdet .*: pip install '\.\[openmm"):
        compare(export, {}, tmp_path / 'looks')


def test_crops_show_the_whole_box():
    image = np.zeros((40, 60, 3), np.uint8)
    image[10:14, 20:40] = 255
    crop = pictures.crop_square(image, (20, 10, 40, 14))
    assert crop.shape == (20, 20, 3)
    assert (crop > 0).sum() == (image > 0).sum()
    edge = pictures.crop_square(image, (0, 0, .5, .5))
    assert edge.size  # and never empty
