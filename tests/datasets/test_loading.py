# Copyright (c) QB-Heat MM authors. All rights reserved.
import mmcv
import numpy as np
import pytest
from mmengine.registry import TRANSFORMS

from qbheat_mm.datasets.integrity import examine
from qbheat_mm.errors import UserError


@pytest.fixture
def image(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (64, 48, 3), np.uint8)
    return pixels, tmp_path


def build(**kwargs):
    return TRANSFORMS.build(dict(type='LoadNamedImageFromFile', **kwargs))


def test_a_sound_image_loads_as_in_mmcv(image):
    pixels, folder = image
    file = str(folder / 'a.png')
    mmcv.imwrite(pixels, file)
    for settings in (dict(), dict(to_float32=True),
                     dict(color_type='grayscale')):
        ours = build(**settings)(dict(img_path=file))
        theirs = TRANSFORMS.build(
            dict(type='LoadImageFromFile', **settings))(dict(img_path=file))
        assert ours.keys() == theirs.keys()
        assert ours['img'].dtype == theirs['img'].dtype
        np.testing.assert_array_equal(ours['img'], theirs['img'])
        assert ours['ori_shape'] == theirs['ori_shape'] == (64, 48)


@pytest.mark.parametrize('ending', ['jpg', 'png'])
@pytest.mark.parametrize('backend', ['cv2', 'pillow'])
@pytest.mark.parametrize('damage', ['cut', 'text', 'empty', 'missing'])
def test_a_bad_image_is_named(image, ending, backend, damage):
    pixels, folder = image
    file = folder / f'bad.{ending}'
    mmcv.imwrite(pixels, str(file))
    content = file.read_bytes()
    if damage == 'missing':
        file.unlink()
    else:
        file.write_bytes(dict(cut=content[:len(content) // 2],
                              text=b'<html>404</html>', empty=b'')[damage])
    load = build(imdecode_backend=backend)
    with pytest.raises(UserError) as error:
        load(dict(img_path=str(file)))
    what = 'is cut' if (damage, ending) == ('cut', 'jpg') else ''
    assert f"image '{file}' {what}" in str(error.value)
    assert '\n' not in str(error.value)

    skip = build(imdecode_backend=backend, ignore_empty=True)
    assert skip(dict(img_path=str(file))) is None


def test_the_skipped_image_is_named_in_the_log(image, monkeypatch):
    lines = []
    monkeypatch.setattr('qbheat_mm.datasets.transforms.loading.print_log',
                        lambda line, **kwargs: lines.append(line))
    build(ignore_empty=True)(dict(img_path='nowhere.jpg'))
    assert 'nowhere.jpg' in lines[0]


@pytest.mark.parametrize('ending', ['png', 'tiff'])
@pytest.mark.parametrize('bits, told', [(12, True), (13, True), (16, False)])
def test_pictures_of_12_bits_in_16_are_told(tmp_path, monkeypatch, ending,
                                            bits, told):
    """OpenCV keeps the upper 8 of the 16, in which nearly nothing is."""
    lines = []
    monkeypatch.setattr('qbheat_mm.datasets.transforms.loading.print_log',
                        lambda line, **_: lines.append(line))
    values = np.linspace(0, 2**bits - 1, 64 * 48).reshape(64, 48)
    load = build()
    for name in 'ab':
        file = str(tmp_path / f'{name}.{ending}')
        mmcv.imwrite(values.astype(np.uint16), file)
        assert load(dict(img_path=file))['img'].max() == (2**bits - 1) >> 8
    # once, not for each
    assert len(lines) == told
    assert not told or "a.{}' has 16 bits a colour".format(ending) in lines[0]


def test_a_dark_tiff_that_pillow_does_not_read_is_loaded(tmp_path,
                                                         monkeypatch):
    """OpenCV does; how deep it is decides about a warning alone."""
    file = str(tmp_path / 'a.tiff')
    mmcv.imwrite(np.full((64, 48), 4095, np.uint16), file)

    def refuse(*args, **kwargs):
        raise OSError('another kind of TIFF')

    monkeypatch.setattr('qbheat_mm.datasets.image_file.Image.open', refuse)
    assert build()(dict(img_path=file))['img'].max() == 15


@pytest.mark.parametrize('ending', ['png', 'tiff', 'jpg'])
def test_a_dark_picture_of_8_bits_is_none_of_these(tmp_path, monkeypatch,
                                                   ending):
    lines = []
    monkeypatch.setattr('qbheat_mm.datasets.transforms.loading.print_log',
                        lambda line, **_: lines.append(line))
    file = str(tmp_path / f'night.{ending}')
    mmcv.imwrite(np.full((64, 48, 3), 5, np.uint8), file)
    build()(dict(img_path=file))
    assert not lines


def test_bytes_around_the_picture_are_no_damage(image):
    pixels, folder = image
    file = folder / 'a.jpg'
    mmcv.imwrite(pixels, str(file))
    whole = file.read_bytes()
    # A thumbnail, itself a JPEG file, inside an application segment.
    segment = b'\xff\xe1' + (len(whole) + 2).to_bytes(2, 'big') + whole
    with_thumbnail = whole[:2] + segment + whole[2:]
    assert examine(with_thumbnail) == (None, (48, 64))
    assert examine(whole + b'\0' * 100) == (None, (48, 64))
    assert examine(with_thumbnail[:-100])[0] == 'cut'
    assert mmcv.imfrombytes(with_thumbnail).shape == (64, 48, 3)
