# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Random crops have mmpretrain's boxes and Pillow's pixels."""
import numpy as np
import pytest
from mmcv.transforms import Compose
from mmpretrain.datasets.transforms import RandomResizedCrop
from mmpretrain.registry import TRANSFORMS
from PIL import Image
from sklearn.datasets import load_sample_image

from .pictures import turned

CROP = dict(type='RandomResizedCrop', _scope_='qbheat_mm')
SIZES = [dict(scale=96), dict(scale=(64, 128), crop_ratio_range=(0.2, 1.)),
         dict(scale=96, aspect_ratio_range=(3., 4.),
              crop_ratio_range=(.9, 1.))]


def draw(height, width):
    """Smooth shades, edges and noise, BGR, of all levels."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:height, :width]
    shades = np.stack([x * 255 / width, y * 255 / height,
                       (x // 17 + y // 23) % 2 * 200], axis=-1)
    return np.clip(shades + rng.normal(0, 20, shades.shape), 0,
                   255).astype(np.uint8)


def run(transform, results, seed):
    """What a transform returns, and the random number after it."""
    np.random.seed(seed)
    return transform(results), np.random.rand()


def distance(ours, theirs):
    return np.abs(ours['img'].astype(int) - theirs['img'])


@pytest.mark.parametrize('interpolation', ['bilinear', 'bicubic'])
@pytest.mark.parametrize('settings', SIZES)
@pytest.mark.parametrize('shape', [(375, 500), (60, 41), (700, 90)])
def test_boxes_and_pixels_are_those_of_mmpretrain(
        interpolation, settings, shape):
    """Enlarged and reduced; the last box is the center, for want of room."""
    settings = dict(settings, interpolation=interpolation)
    ours = TRANSFORMS.build({**CROP, **settings})
    pillow = RandomResizedCrop(backend='pillow', **settings)
    image = draw(*shape)
    for seed in range(8):
        (got, after), (expected, theirs) = (
            run(t, dict(img=image), seed) for t in (ours, pillow))
        assert after == theirs, 'as many random numbers'
        assert got['img'].shape == got['img_shape'] == expected['img_shape']
        assert got['img'].dtype == np.uint8
        assert distance(got, expected).mean() <= 0.4


def test_a_random_interpolation_is_one_of_two():
    transforms = [TRANSFORMS.build(dict(CROP, scale=32, interpolation=each))
                  for each in ('bilinear', 'bicubic', 'random')]
    image, seen = draw(60, 80), set()
    for seed in range(10):
        *fixed, drawn = (run(t, dict(img=image), seed)[0]['img'].tobytes()
                         for t in transforms)
        seen.add(fixed.index(drawn))
    assert seen == {0, 1}


def both(**settings):
    """From the file in one step, and mmpretrain's two steps."""
    crop = dict(dict(interpolation='bicubic', scale=64), **settings)
    theirs = dict(crop)
    theirs.pop('oversampling', None)
    return (TRANSFORMS.build(dict(type='LoadRandomResizedCrop', **crop)),
            Compose([TRANSFORMS.build(dict(type='LoadImageFromFile')),
                     RandomResizedCrop(backend='pillow', **theirs)]))


def test_defaults_and_the_settings_of_the_file():
    """The defaults that the results of recipes rely on."""
    backend = dict(backend='local')
    transform = TRANSFORMS.build(dict(
        type='LoadRandomResizedCrop', scale=32, backend_args=backend))
    assert (transform.oversampling, transform.interpolation) == (2, 'bicubic')
    assert transform.load.backend_args == backend


def save(folder, image, name='a.jpg', **options):
    Image.fromarray(image).save(folder / name, **options)
    return str(folder / name)


@pytest.mark.parametrize('name', ['china.jpg', 'flower.jpg'])
@pytest.mark.parametrize('interpolation', ['bilinear', 'bicubic'])
@pytest.mark.parametrize('scale', [(64, 128), 96, 256])
def test_decoding_at_a_reduced_size_changes_little(tmp_path, name, scale,
                                                   interpolation):
    """As sharp as images can be: photographs laid side by side."""
    tiles = np.tile(load_sample_image(name), (3, 3, 1))[:1200, :1600]
    path = save(tmp_path, tiles, quality=90)
    ours, theirs = both(scale=scale, interpolation=interpolation,
                        crop_ratio_range=(0.2, 1.))
    for seed in range(4):
        (got, after), (expected, other) = (
            run(t, dict(img_path=path), seed) for t in (ours, theirs))
        assert after == other, 'as many random numbers'
        assert got.keys() == {*expected, 'crop_box'}
        for key in ('ori_shape', 'img_shape'):
            assert got[key] == expected[key]
        assert distance(got, expected).mean() <= 1.5


def test_files_are_decoded_no_larger_than_needed(tmp_path, monkeypatch):
    path = save(tmp_path, draw(600, 800))
    ours, _ = both(scale=64, crop_ratio_range=(1., 1.),
                   aspect_ratio_range=(4 / 3, 4 / 3))
    shapes = []
    decode = ours.load.decode
    monkeypatch.setattr(ours.load, 'decode', lambda *args: (
        shapes.append(decode(*args).shape) or decode(*args)))
    # 600 / 64 / 2.34375 is 4 exactly.
    for oversampling, shape in ((1, (75, 100)), (2.34375, (150, 200)),
                                (3, (300, 400)), (6, (600, 800))):
        ours.oversampling = oversampling
        ours(dict(img_path=path))
        assert shapes.pop()[:2] == shape


@pytest.mark.parametrize('name, options', [
    ('a.png', {}), ('a.jpg', dict(exif=turned(6))),
    ('a.jpg', dict(exif=turned(3)))])
def test_what_cannot_be_reduced_is_cropped_all_the_same(tmp_path, name,
                                                        options):
    path = save(tmp_path, draw(300, 400), name, **options)
    for seed in range(3):
        (got, _), (expected, _) = (
            run(t, dict(img_path=path), seed) for t in both(scale=32))
        assert got['ori_shape'] == expected['ori_shape']
        assert distance(got, expected).mean() <= 0.4
