# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Random crops beside mmpretrain's: the same boxes, the same pixels."""
import numpy as np
import pytest
from mmpretrain.datasets.transforms import RandomResizedCrop
from mmpretrain.registry import TRANSFORMS

from qbheat_mm.errors import UserError

CROP = dict(type='RandomResizedCrop', _scope_='qbheat_mm')


def photograph(height, width):
    """Smooth shades, edges and noise, BGR, of all grey levels."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:height, :width]
    shades = np.stack([x * 255 / width, y * 255 / height,
                       (x // 17 + y // 23) % 2 * 200], axis=-1)
    return np.clip(shades + rng.normal(0, 20, shades.shape), 0,
                   255).astype(np.uint8)


def crop(transform, image, seed):
    np.random.seed(seed)
    return transform(dict(img=image))


def difference(*results):
    ours, pillow = (result['img'].astype(int) for result in results)
    return np.abs(ours - pillow)


@pytest.mark.parametrize('interpolation', ['bilinear', 'bicubic'])
@pytest.mark.parametrize('settings', [
    dict(scale=96), dict(scale=(64, 128), crop_ratio_range=(0.2, 1.)),
    dict(scale=96, aspect_ratio_range=(3., 4.), crop_ratio_range=(.9, 1.))])
@pytest.mark.parametrize('size', [(375, 500), (60, 41), (700, 90)])
def test_boxes_and_pixels_are_those_of_pillow(interpolation, settings, size):
    """Enlarged and reduced; the last box is the center, for want of room."""
    settings = dict(settings, interpolation=interpolation)
    ours = TRANSFORMS.build({**CROP, **settings})
    pillow = RandomResizedCrop(backend='pillow', **settings)
    image = photograph(*size)
    soft = image // 2 + 64  # no weights lead beyond black or white
    before = image.copy()
    for seed in range(8):
        got, expected = (crop(t, image, seed) for t in (ours, pillow))
        after = np.random.rand()
        crop(pillow, image, seed)
        assert after == np.random.rand()  # as many numbers were drawn
        assert got['img'].shape == got['img_shape'] == expected['img_shape']
        assert got['img'].dtype == np.uint8
        assert difference(got, expected).mean() <= 0.4
        assert difference(*(crop(t, soft, seed)
                            for t in (ours, pillow))).max() <= 2
    assert (image == before).all()


def test_grey_images_stay_grey():
    got = crop(TRANSFORMS.build(dict(CROP, scale=32)),
               photograph(50, 70)[..., 0], seed=0)
    assert got['img'].shape == got['img_shape'] == (32, 32)


def test_what_is_not_bytes_takes_mmpretrains_path():
    image = photograph(50, 70).astype(np.float32) / 3
    settings = dict(scale=32, interpolation='bilinear', backend='cv2')
    got, expected = (
        crop(t, image, 0)['img'] for t in (
            TRANSFORMS.build({**CROP, **settings}),
            RandomResizedCrop(**settings)))
    assert (got == expected).all() and got.dtype == np.float32


@pytest.mark.parametrize('settings, message', [
    (dict(backend='opencv'), "backend='opencv' must be"),
    (dict(interpolation='lanczos'), "interpolation='lanczos' must be"),
    (dict(interpolation='lanczos', backend='pillow'), None)])
def test_settings(settings, message):
    if message is None:
        TRANSFORMS.build(dict(CROP, scale=32, **settings))
        return
    with pytest.raises(UserError, match=message):
        TRANSFORMS.build(dict(CROP, scale=32, **settings))
