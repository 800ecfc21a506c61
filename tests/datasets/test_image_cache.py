# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Images are decoded once, whoever asks for them."""
import pickle

import numpy as np
import pytest
from mmengine.dataset import DefaultSampler
from mmengine.registry import DATASETS
from sklearn.datasets import load_sample_image
from torch.utils.data import DataLoader

from qbheat_mm.datasets import image_cache
from qbheat_mm.engine.random_state import SeededBatchSampler
from qbheat_mm.errors import UserError

from .pictures import encode, turned

PHOTOGRAPH = load_sample_image('china.jpg')


@pytest.fixture
def folder(tmp_path):
    """Small, large, turned, without loss, and damaged."""
    large = np.tile(PHOTOGRAPH, (2, 2, 1))
    for i, content in enumerate((
            encode(PHOTOGRAPH[:200, :300]), encode(large),
            encode(large, exif=turned(6)), encode(large, 'PNG'))):
        (tmp_path / f'{i}.jpg').write_bytes(content)
    return tmp_path


def build(folder, scale=64, **settings):
    return DATASETS.build(dict(
        type='NamedImageFolder', data_root=str(folder), with_label=False,
        _scope_='mmpretrain', pipeline=[
            dict(dict(type='LoadRandomResizedCrop', scale=scale,
                      crop_ratio_range=(0.2, 1.)), **settings),
            dict(type='PackInputs')]))


def crops(data, epochs=2, **loader):
    """All samples, as arrays and boxes."""
    sampler = DefaultSampler(data, seed=0)
    batches = SeededBatchSampler(sampler, 4)
    loader = DataLoader(data, batch_sampler=batches, collate_fn=list, **loader)
    found = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        found += [each for batch in loader for each in batch]
    return np.stack([each['inputs'].numpy() for each in found]), [
        (each['data_samples'].sample_idx, each['data_samples'].ori_shape)
        for each in found]


def decodings(data, monkeypatch):
    """A list that grows with each decoding of this process."""
    load, seen = data.pipeline.transforms[0].load, []
    decode = load.decode
    monkeypatch.setattr(load, 'decode', lambda file, reduction=1: (
        seen.append(file.path), decode(file, reduction))[1])
    return seen


def test_crops_are_close_to_those_of_the_files(folder, monkeypatch):
    plain, cached = build(folder), build(folder, cache='ram')
    whole = build(folder, oversampling=1000.)  # never reduced
    seen = decodings(cached, monkeypatch)
    (ours, samples), (theirs, others), (exact, _) = map(
        crops, (cached, plain, whole))
    assert samples == others and len(seen) == 4
    first = [i for i, (index, _) in enumerate(samples) if index == 0]
    np.testing.assert_array_equal(ours[first], theirs[first])
    for each in (theirs, exact):
        errors = np.abs(ours.astype(int) - each).mean((1, 2, 3))
        assert errors.max() <= 1.5 and errors.mean() <= 1
    # 8 suits whole images, 2 the smallest boxes.
    kept = [cached.pipeline.transforms[0].cache.get(i) for i in range(4)]
    assert [reduction for _, reduction, _ in kept] == [1, 2, 2, 2]
    assert kept[2][0] == kept[1][0][::-1] == (1280, 854)


@pytest.mark.parametrize('persistent', [False, True])
def test_workers_share_one_block(folder, monkeypatch, persistent):
    data = build(folder, cache='ram')
    expected, _ = crops(build(folder, cache='ram'))
    got, _ = crops(data, num_workers=2, persistent_workers=persistent)
    np.testing.assert_array_equal(got, expected)
    # What workers decoded is here, and more epochs need no file.
    seen = decodings(data, monkeypatch)
    np.testing.assert_array_equal(crops(data)[0], expected)
    assert not seen


def test_a_cache_reaches_other_processes_and_ends_with_them():
    cache = image_cache.ImageCache()
    image = PHOTOGRAPH[:9, :16].copy()
    cache.put(3, (17, 31), 2, image)
    other = pickle.loads(pickle.dumps(cache))  # as for a spawned worker
    shape, reduction, pixels = other.get(3)
    assert (shape, reduction) == ((17, 31), 2)
    np.testing.assert_array_equal(pixels, image)
    assert other.get(2) is None and other.get(99) is None
    path = cache.path
    del cache, other
    with pytest.raises(FileNotFoundError):
        image_cache.ImageCache(path)


def test_short_memory_turns_it_off_and_is_said_once(folder, monkeypatch):
    lines, left = [], [image_cache.RESERVE, image_cache.RESERVE - 1]
    monkeypatch.setattr(image_cache, 'INTERVAL', 0)
    monkeypatch.setattr(image_cache, 'available_memory', lambda: left.pop(0))
    monkeypatch.setattr(image_cache, 'print_log',
                        lambda line, **kwargs: lines.append(line))
    data = build(folder, cache='ram')
    seen = decodings(data, monkeypatch)
    got, _ = crops(data)
    assert len(lines) == 1 and '2.0 GiB' in lines[0]
    assert len(seen) == 7 and not left  # all but the first, twice
    monkeypatch.undo()
    np.testing.assert_array_equal(got, crops(build(folder, cache='ram'))[0])


def test_other_systems_go_without(folder, monkeypatch):
    expected, _ = crops(build(folder, cache='ram'))
    monkeypatch.delattr('os.memfd_create')
    lines = []
    monkeypatch.setattr(image_cache, 'print_log',
                        lambda line, **kwargs: lines.append(line))
    data = build(folder, cache='ram')
    np.testing.assert_array_equal(crops(data)[0], expected)
    assert len(lines) == 1 and 'Linux' in lines[0]
    with pytest.raises(UserError, match="cache='disk'"):
        build(folder, cache='disk')


def test_damaged_files_stay_what_they_are(folder, monkeypatch):
    sound = encode(PHOTOGRAPH[:200, :300], quality=90)
    middle = len(sound) // 2
    (folder / '4.jpg').write_bytes(sound[:middle] + sound[middle + 200:])
    with pytest.raises(UserError, match='4.jpg'):
        crops(build(folder, cache='ram'))
    for ignored in (True, 'damage'):  # skipped, or decoded nevertheless
        (plain, samples), (cached, others) = (
            crops(build(folder, ignore_empty=ignored, cache=cache))
            for cache in (None, 'ram'))
        assert samples == others and len(samples) == 10
        last = [i for i, (index, _) in enumerate(samples) if index == 4]
        np.testing.assert_array_equal(plain[last], cached[last])
        assert bool(last) == (ignored == 'damage')


def test_memory_is_what_the_machine_or_the_container_has_left(
        tmp_path, monkeypatch):
    assert 0 < image_cache.available_memory() < 1 << 50
    files = {
        '/proc/self/cgroup': ['4:memory:/job', '3:cpu:/', '0::/user'],
        '/sys/fs/cgroup/memory/job/memory.limit_in_bytes': ['2000000'],
        '/sys/fs/cgroup/memory/job/memory.usage_in_bytes': ['900000'],
        '/sys/fs/cgroup/memory/job/memory.stat': [
            'total_inactive_file 100000'],
        '/sys/fs/cgroup/memory.max': ['max']}
    monkeypatch.setattr(image_cache, '_lines',
                        lambda path: files.get(str(path), []))
    assert image_cache.available_memory() == 1200000
    files['/sys/fs/cgroup/memory.max'] = ['1500000']
    files['/sys/fs/cgroup/memory.current'] = ['1000000']
    files['/sys/fs/cgroup/memory.stat'] = ['anon 9', 'inactive_file 0']
    assert image_cache.available_memory() == 500000
