# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Random crops beside mmpretrain's: the same boxes, the same pixels."""
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mmcv.transforms import Compose
from mmpretrain.datasets.transforms import RandomResizedCrop
from mmpretrain.registry import TRANSFORMS
from PIL import Image
from sklearn.datasets import load_sample_image

from qbheat_mm.datasets.undecoded import UndecodedImage
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


@pytest.mark.parametrize('interpolation', ['bilinear', 'bicubic'])
@pytest.mark.parametrize('kind, levels', [
    (np.float32, 1), (np.float64, 1), (np.float32, 1 / 255), (np.uint16, 257),
    (np.int16, 1)])
@pytest.mark.parametrize('grey', [False, True])
def test_images_of_other_numbers_are_cropped_as_bytes_are(
        interpolation, kind, levels, grey):
    """As of ``LoadImageFromFile`` with ``to_float32=True``."""
    image = photograph(120, 90) // 2 + 64  # no weights lead beyond the range
    image = image[..., 0] if grey else image
    transform = TRANSFORMS.build(
        dict(CROP, scale=48, interpolation=interpolation))
    given = (image.astype(float) * levels).astype(kind)
    for seed in range(4):
        expected = crop(transform, image, seed)['img']
        got = crop(transform, given, seed)
        assert got['img'].dtype == kind and got['img'].shape == expected.shape
        assert got['img_shape'] == expected.shape
        assert np.abs(got['img'] / levels - expected).max() <= 1.1


def test_no_weights_lead_beyond_what_a_number_can_hold():
    transform = TRANSFORMS.build(dict(CROP, scale=150))
    image = photograph(60, 40).astype(np.uint16) * 257
    resized = crop(transform, image, 0)['img'].astype(float)
    small = crop(transform, photograph(60, 40), 0)['img']
    # bytes are cut after each of two steps; what wraps is 200 off
    assert np.abs(resized / 257 - small).max() <= 20


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


LOAD = dict(type='LoadImageFromFile', _scope_='qbheat_mm')


def pipelines(deferred=True, **settings):
    """Ours, and one that decodes whole pictures."""
    return [Compose([
        TRANSFORMS.build({**LOAD, 'deferred': later}),
        TRANSFORMS.build({**CROP, **settings})]) for later in (deferred, False)
    ]


def saved(folder, image, name='a.jpg', **options):
    Image.fromarray(image).save(folder / name, **options)
    return str(folder / name)


def cropped(pipeline, path, seed):
    np.random.seed(seed)
    results = pipeline(dict(img_path=path))
    return results, np.random.rand()


@pytest.mark.parametrize('name', ['china.jpg', 'flower.jpg'])
@pytest.mark.parametrize('interpolation', ['bilinear', 'bicubic'])
def test_reduced_photographs_are_those_of_whole_ones(tmp_path, name,
                                                     interpolation):
    """As sharp as pixels can be, since photographs are laid side by side."""
    tiles = np.tile(load_sample_image(name), (3, 3, 1))[:1200, :1600]
    path = saved(tmp_path, tiles, quality=90)
    reduced = 0
    for scale in ((64, 128), 96, 256):
        later, now = pipelines(scale=scale, interpolation=interpolation,
                               crop_ratio_range=(0.2, 1.))
        for seed in range(4):
            (got, a), (expected, b) = (
                cropped(each, path, seed) for each in (later, now))
            assert a == b, 'as many random numbers'
            assert got.keys() == expected.keys()
            for key in ('ori_shape', 'img_shape'):
                assert got[key] == expected[key]
            assert got['img'].dtype == np.uint8
            difference = np.abs(got['img'] - expected['img'].astype(float))
            assert difference.mean() <= 1
            reduced += difference.any()
    assert reduced >= 6


@given(crop=st.tuples(*[st.integers(1, 5000)] * 2),
       size=st.tuples(*[st.integers(1, 512)] * 2),
       oversampling=st.floats(1, 4))
def test_the_largest_reduction_that_leaves_enough(crop, size, oversampling):
    found = UndecodedImage(b'', (9, 9, 3), None).reduction_for(
        crop, size, oversampling)

    def is_enough(reduction):
        return all(side / reduction >= oversampling * wanted * (1 - 1e-9)
                   for side, wanted in zip(crop, size, strict=True))

    assert found == 1 or is_enough(found)
    assert found == 8 or not is_enough(found * 2 * (1 + 1e-9))


def test_small_crops_are_the_same_to_the_bit(tmp_path):
    path = saved(tmp_path, photograph(300, 400))
    for settings in (dict(scale=256), dict(scale=64, oversampling=100),
                     dict(scale=32, backend='pillow')):
        (got, _), (expected, _) = (
            cropped(each, path, 3) for each in pipelines(**settings))
        assert (got['img'] == expected['img']).all()


@pytest.mark.parametrize('kind', ['png', 'turned', 'grey', 'declared'])
def test_what_cannot_be_reduced_is_decoded_at_once(tmp_path, kind):
    turned = Image.Exif()
    turned[274] = 6
    path = saved(tmp_path, photograph(300, 400),
                 'a.png' if kind == 'png' else 'a.jpg',
                 **(dict(exif=turned) if kind == 'turned' else {}))
    load = TRANSFORMS.build(dict(LOAD, deferred=True, **(
        dict(color_type='grayscale') if kind == 'grey' else {})))
    size = dict(height=300, width=400) if kind == 'declared' else {}
    results = load(dict(img_path=path, **size))
    assert results['img'].shape[:2] == results['img_shape'] == (
        (400, 300) if kind == 'turned' else (300, 400))
    assert 'undecoded' not in results


@pytest.mark.parametrize('ignore', [False, True, 'damage'])
@pytest.mark.parametrize('what', ['cut', 'damaged'])
def test_bad_files_are_named_or_passed_over(tmp_path, what, ignore):
    path = saved(tmp_path, photograph(600, 800), quality=95)
    content = bytearray((tmp_path / 'a.jpg').read_bytes())
    if what == 'cut':
        del content[len(content) // 2:]
    else:  # a marker that no scan may hold
        content[len(content) // 2:len(content) // 2 + 2] = b'\xff\xc0'
    (tmp_path / 'a.jpg').write_bytes(content)
    pipeline = Compose([
        TRANSFORMS.build(dict(LOAD, deferred=True, ignore_empty=ignore)),
        TRANSFORMS.build(dict(CROP, scale=64, crop_ratio_range=(0.9, 1.)))])
    if ignore is True:
        assert pipeline(dict(img_path=path)) is None
    elif ignore and what == 'damaged':
        assert pipeline(dict(img_path=path))['img'].shape == (64, 64, 3)
    else:
        with pytest.raises(UserError, match=f"image '{path}' is {what}"):
            pipeline(dict(img_path=path))


def test_another_transform_says_what_it_needs(tmp_path):
    path = saved(tmp_path, photograph(60, 80))
    load = TRANSFORMS.build(dict(LOAD, deferred=True))
    with pytest.raises(UserError, match='write deferred=False'):
        RandomResizedCrop(scale=32)(load(dict(img_path=path)))
    with pytest.raises(KeyError, match='label'):
        load(dict(img_path=path))['label']
