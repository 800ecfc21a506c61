# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What training does with files that cannot be loaded, or are turned."""
import numpy as np
import pytest
import torch
from mmengine.registry import TRANSFORMS

from qbheat_mm.datasets import ImageError
from qbheat_mm.errors import UserError

from .pictures import draw, encode, turned

LOADERS = [dict(type='LoadImageFromFile', _scope_='qbheat_mm'),
           dict(type='LoadRandomResizedCrop', scale=32)]
every_loader = pytest.mark.parametrize(
    'loader', LOADERS, ids=['whole', 'crop'])


@pytest.fixture
def damaged(tmp_path):
    """A JPEG file with a part of its data lost."""
    sound = encode(draw(160, 160), quality=90)
    middle = len(sound) // 2
    (tmp_path / 'a.jpg').write_bytes(sound[:middle] + sound[middle + 200:])
    return dict(img_path=str(tmp_path / 'a.jpg'))


@every_loader
def test_damage_is_an_error_unless_it_is_accepted(damaged, logged, loader):
    with pytest.raises(ImageError, match=damaged['img_path']):
        TRANSFORMS.build(loader)(dict(damaged))
    lenient = TRANSFORMS.build(dict(loader, ignore_empty='damage'))
    for _ in range(2):
        assert lenient(dict(damaged))['img'].ndim == 3
    assert len(logged) == 1 and damaged['img_path'] in logged[0]


@every_loader
@pytest.mark.parametrize('content', [
    b'', b'<html>404</html>', encode(draw())[:-300], None])
def test_what_is_no_whole_image_is_never_accepted(tmp_path, loader, content):
    path = tmp_path / 'a.jpg'
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ImageError, match='a.jpg'):
        TRANSFORMS.build(dict(loader, ignore_empty='damage'))(
            dict(img_path=str(path)))


@every_loader
def test_skipped_images_are_named(damaged, logged, loader):
    skip = TRANSFORMS.build(dict(loader, ignore_empty=True))
    assert skip(dict(damaged)) is None
    assert skip(dict(img_path='nowhere.jpg')) is None
    assert damaged['img_path'] in logged[0] and 'nowhere.jpg' in logged[1]


@pytest.mark.parametrize('settings', [
    dict(color_type='grayscale'), dict(ignore_empty='yes')])
def test_unknown_settings(settings):
    (name, value), = settings.items()
    with pytest.raises(UserError, match=f"{name}='{value}'"):
        TRANSFORMS.build(dict(LOADERS[0], **settings))


def test_an_image_in_memory_passes():
    results = TRANSFORMS.build(LOADERS[0])(dict(img=draw()))
    assert results['ori_shape'] == results['img_shape'] == (48, 64)
    loader = TRANSFORMS.build(dict(LOADERS[0], to_float32=True))
    assert loader(dict(img=draw()))['img'].dtype == np.float32


@pytest.fixture
def load(tmp_path):
    """Load an image of an orientation and of a declared size."""
    def load(orientation, declared, shape=(48, 64), **settings):
        path = tmp_path / 'a.jpg'
        path.write_bytes(encode(draw(*shape), exif=turned(orientation)))
        height, width = declared
        return TRANSFORMS.build(dict(LOADERS[0], **settings))(dict(
            img_path=str(path), height=height, width=width))['img']

    return load


STORED, UPRIGHT = (48, 64), (64, 48)


def test_boxes_must_belong_to_the_image(load):
    assert load(6, UPRIGHT).shape[:2] == UPRIGHT
    stored = dict(color_type='color_ignore_orientation')
    assert load(6, STORED, **stored).shape[:2] == STORED
    for orientation, declared, settings in (
            (6, STORED, {}), (6, UPRIGHT, stored), (3, UPRIGHT, {}),
            (1, UPRIGHT, {}), (1, (24, 32), {}), (1, (48, 65), {})):
        with pytest.raises(ImageError, match='a.jpg'):
            load(orientation, declared, **settings)


@pytest.mark.parametrize('settings', [
    dict(prob=0.5), dict(prob=0.5, direction='vertical'),
    dict(prob=[0.3, 0.3], direction=['horizontal', 'diagonal'])])
def test_flipping_and_packing_are_mmpretrains(settings):
    flips = set()
    for seed in range(12):
        results = []
        for scope in ('qbheat_mm', 'mmpretrain'):
            flip, pack = (TRANSFORMS.build(dict(step, _scope_=scope))
                          for step in (dict(settings, type='RandomFlip'),
                                       dict(type='PackInputs')))
            np.random.seed(seed)
            packed = pack(flip(dict(img=draw(16, 24), gt_label=3)))
            results.append((packed, np.random.rand()))
        (ours, after), (theirs, other) = results
        assert ours['inputs'].equal(theirs['inputs']) and after == other
        assert ours['inputs'].is_contiguous()
        found = dict(ours['data_samples'].all_items())
        assert ('crop_box' in found) == found['flip']
        found.pop('crop_box', None)
        assert found == dict(theirs['data_samples'].all_items())
        flips.add(ours['data_samples'].flip_direction)
    assert len(flips) == 1 + len(np.atleast_1d(settings['prob']))


@pytest.mark.parametrize('image', [
    draw()[..., 0], draw().astype(np.float32), [draw(), draw()]])
def test_other_images_are_packed_as_by_mmpretrain(image):
    ours, theirs = (TRANSFORMS.build(dict(type='PackInputs', _scope_=scope))(
        dict(img=image))['inputs'] for scope in ('qbheat_mm', 'mmpretrain'))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize('orientation', [1, 3, 6])
@pytest.mark.parametrize('form', ['JPEG', 'PNG'])
@pytest.mark.parametrize('cache', [None, 'ram'])
def test_loaded_images_may_be_written_to(tmp_path, form, orientation, cache):
    """Whatever the size; another crop of the same image stays what it is."""
    whole = TRANSFORMS.build(LOADERS[0])
    crops = TRANSFORMS.build(dict(LOADERS[1], scale=8, cache=cache))
    random = np.random.default_rng(0)
    for index in range(12):
        height, width = 8 * (2 ** random.uniform(0, 7, 2)).astype(int)
        path = tmp_path / f'{index}.image'
        path.write_bytes(encode(draw(height, width), form,
                                exif=turned(orientation)))
        sample = dict(img_path=str(path), sample_idx=index)
        for load in (whole, crops):
            np.random.seed(index)
            first = load(dict(sample))['img']
            expected = first.copy()
            first[:] = 0
            np.random.seed(index)
            np.testing.assert_array_equal(load(dict(sample))['img'], expected)
