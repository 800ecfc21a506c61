# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Files decode to the pixels that Pillow finds, or are named in an error."""
import io
import os
import warnings

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

from qbheat_mm.datasets import ImageError, find_images, read_image
from qbheat_mm.datasets.images import ImageFile
from qbheat_mm.evaluation import embedding

from .pictures import FORMATS, draw, encode, turned

# Damage that leaves no trace in data without check sums.
HIDDEN = {(extension, how) for extension in FORMATS if extension != 'png'
          for how in ('zeros', 'noise', 'padded', 'part lost')}
HIDDEN -= {('jpg', 'padded'), ('jpg', 'part lost')}


def with_pillow(content):
    """The pixels of a sound file, BGR."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(content)))
    return np.asarray(image.convert('RGB'))[..., ::-1]


def store(folder, content, name='a.jpg'):
    (folder / name).write_bytes(content)
    return str(folder / name)


def damage(content, random, how):
    place = int(random.integers(1, len(content)))
    return {
        'cut': content[:place],
        'padded': content[:place] + bytes(len(content) - place),
        'zeros': content[:place] + bytes(64) + content[place + 64:],
        'noise': content[:place] + random.bytes(64) + content[place + 64:],
        'part lost': content[:place] + content[place + 50:],
        'head lost': content[place:]}[how]


@pytest.mark.parametrize('extension', FORMATS)
@pytest.mark.parametrize('how', ['cut', 'padded', 'zeros', 'noise',
                                 'part lost', 'head lost'])
def test_a_damaged_file_is_named(tmp_path, extension, how):
    random = np.random.default_rng(sorted(FORMATS).index(extension))
    for seed in range(5):
        sound = encode(draw(seed=seed), FORMATS[extension])
        path = store(tmp_path, damage(sound, random, how), f'{seed}.image')
        try:
            found = read_image(path)
        except ImageError as error:
            assert repr(path) in str(error) and '\n' not in str(error)
            continue
        if (extension, how) not in HIDDEN:
            np.testing.assert_array_equal(found, with_pillow(sound))


@pytest.mark.parametrize('orientation', range(1, 9))
@pytest.mark.parametrize('extension', [
    extension for extension in FORMATS
    if extension not in ('gif', 'bmp', 'ppm')])
def test_exif_orientations_are_applied(tmp_path, extension, orientation):
    content = encode(draw(), FORMATS[extension], exif=turned(orientation))
    file = ImageFile(store(tmp_path, content))
    assert file.shape == ((64, 48) if orientation > 4 else (48, 64))
    np.testing.assert_array_equal(file.decode(), with_pillow(content))
    if extension != 'tif':  # which Pillow turns in any case
        as_stored = ImageFile(file.path, use_exif=False).decode()
        content = encode(draw(), FORMATS[extension])
        np.testing.assert_array_equal(as_stored, with_pillow(content))


@pytest.mark.parametrize('form, mode', [
    ('JPEG', 'L'), ('JPEG', 'CMYK'), ('PNG', 'L'), ('PNG', 'RGBA'),
    ('PNG', 'LA'), ('PNG', 'P'), ('PNG', '1'), ('TIFF', 'CMYK')])
def test_three_channels_of_every_mode(tmp_path, form, mode):
    content = encode(Image.fromarray(draw()).convert(mode), form)
    found = read_image(store(tmp_path, content))
    assert found.shape == (48, 64, 3) and found.dtype == np.uint8
    # libjpeg rounds CMYK differently
    assert np.abs(found - with_pillow(content).astype(int)).max() <= (
        1 if (form, mode) == ('JPEG', 'CMYK') else 0)


@pytest.mark.parametrize('extension', ['png', 'tiff'])
@pytest.mark.parametrize('channels', [1, 3, 4])
def test_the_upper_8_of_16_bits(tmp_path, extension, channels):
    values = np.linspace(0, 65535, 48 * 64).reshape(48, 64).astype(np.uint16)
    image = np.stack([values] * channels, axis=-1)
    _, content = cv2.imencode(f'.{extension}', image)
    found = read_image(store(tmp_path, content.tobytes()))
    np.testing.assert_array_equal(found, np.stack([values >> 8] * 3, axis=-1))
    assert is_nearly_black(tmp_path, extension, image >> 3)
    assert not is_nearly_black(tmp_path, extension, image >> 2)
    # A marker, or dead pixels, of a detector of 12 bits.
    dark = image >> 4
    dark[:8, :12] = 65535
    assert is_nearly_black(tmp_path, extension, dark)
    dark[:16] = 65535
    assert not is_nearly_black(tmp_path, extension, dark)


def is_nearly_black(folder, extension, image):
    """Whether reading the image warns."""
    _, content = cv2.imencode(f'.{extension}', image)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        read_image(store(folder, content.tobytes()))
    return [f"images in '{folder}' are nearly black" in str(warning.message)
            for warning in caught] == [True]


def test_dark_images_of_8_bits_are_as_they_are(tmp_path):
    image = np.full((48, 64, 3), 15, np.uint8)
    for extension in ('png', 'tiff', 'jpg', 'bmp'):
        assert not is_nearly_black(tmp_path, extension, image)


TIFF_LAYOUTS = [
    dict(byteorder='<'), dict(byteorder='<', rowsperstrip=7),
    dict(byteorder='<', tile=(16, 16)), dict(byteorder='<', bigtiff=True),
    dict(byteorder='<', compression='zlib'), dict(byteorder='>'),
    dict(byteorder='>', rowsperstrip=7), dict(byteorder='>', tile=(16, 16)),
    dict(byteorder='>', compression='zlib')]


@pytest.mark.parametrize('layout', TIFF_LAYOUTS)
@pytest.mark.parametrize('planes', ['contig', 'separate'])
@pytest.mark.parametrize('kind', [np.uint8, np.uint16])
def test_tiff_files_of_every_layout(tmp_path, kind, planes, layout):
    tifffile = pytest.importorskip('tifffile')
    bits = 8 * np.dtype(kind).itemsize
    image = np.random.default_rng(0).integers(
        0, 1 << bits, (48, 64, 3)).astype(kind)
    stored = image if planes == 'contig' else image.transpose(2, 0, 1)
    path = str(tmp_path / 'a.tif')
    tifffile.imwrite(path, stored, photometric='rgb', planarconfig=planes,
                     **layout)
    if bits == 16 and planes == 'separate' and 'compression' not in layout:
        with pytest.raises(ImageError, match='interleaved'):
            read_image(path)
        return
    expected = (image >> bits - 8)[..., ::-1]
    np.testing.assert_array_equal(read_image(path), expected)
    array = embedding._as_arrays(Image.open(path))[0]
    np.testing.assert_array_equal(array, expected[..., ::-1])


@pytest.mark.parametrize('byteorder', '<>')
@pytest.mark.parametrize('kind', [np.uint8, np.uint16])
@pytest.mark.parametrize('bands, color, planes', [
    (13, 'minisblack', 'contig'), (13, 'minisblack', 'separate'),
    (4, 'minisblack', 'contig'), (4, 'minisblack', 'separate'),
    (3, 'minisblack', 'separate'), (7, 'rgb', 'separate')])
def test_other_bands_are_refused(tmp_path, bands, color, planes, kind,
                                 byteorder):
    tifffile = pytest.importorskip('tifffile')
    size = (48, 64, bands) if planes == 'contig' else (bands, 48, 64)
    path = str(tmp_path / 'a.tif')
    tifffile.imwrite(path, np.ones(size, kind), photometric=color,
                     planarconfig=planes, byteorder=byteorder)
    with pytest.raises(ImageError, match='is a TIFF file of a kind'):
        read_image(path)


@pytest.mark.parametrize('mode', ['RGB', 'L', 'I;16', '1'])
@pytest.mark.parametrize('number', [2, 5])
def test_several_pages_are_refused(tmp_path, mode, number):
    pages = []
    for seed in range(number):
        page = Image.fromarray(draw(seed=seed)).convert('L')
        pages.append(page.convert('I').convert(mode) if mode == 'I;16'
                     else page.convert(mode))
    path = store(tmp_path, encode(
        pages[0], 'TIFF', save_all=True, append_images=pages[1:]), 'a.tif')
    with pytest.raises(ImageError, match=f"a.tif' has {number} pages"):
        read_image(path)
    assert len(embedding._as_arrays(Image.open(path))) == 1


@pytest.mark.parametrize('kind', [1, 4])
def test_smaller_copies_and_masks_in_a_file_are_no_pages(tmp_path, kind):
    """As of GeoTIFF files, pyramids and cameras."""
    tifffile = pytest.importorskip('tifffile')
    with tifffile.TiffWriter(tmp_path / 'a.tif') as file:
        file.write(draw())
        if kind & 4:
            file.write(draw()[..., 0] > 90, subfiletype=kind,
                       photometric='mask')
        else:
            file.write(draw()[::2, ::2], subfiletype=kind)
    np.testing.assert_array_equal(
        read_image(str(tmp_path / 'a.tif')), draw()[..., ::-1])


def test_heic_files_are_images_where_pillow_heif_is(tmp_path):
    heif = pytest.importorskip('pillow_heif')
    heif.from_pillow(Image.fromarray(draw())).save(tmp_path / 'a.heic')
    found = read_image(str(tmp_path / 'a.heic'))
    assert np.abs(found[..., ::-1] - draw().astype(int)).mean() < 20
    assert find_images([str(tmp_path)]) == [str(tmp_path / 'a.heic')]


def test_floats_are_refused(tmp_path):
    path = store(tmp_path, encode(np.ones((48, 64), np.float32), 'TIFF'))
    with pytest.raises(ImageError, match="'F'"):
        read_image(path)


@pytest.mark.parametrize('options', [
    dict(progressive=True), dict(restart_marker_blocks=2),
    dict(optimize=True), dict(subsampling=0), dict(quality=1)])
def test_jpeg_files_of_every_kind(tmp_path, options):
    sound = encode(draw(), **options)
    frame = max(sound.find(b'\xff\xc0'), sound.find(b'\xff\xc2'))
    random = np.random.default_rng(0)
    for content in (
            sound,
            sound[:frame] + b'\xff' * 5 + sound[frame:],  # fill bytes
            sound + random.bytes(100_000)):  # the video of a motion photo
        np.testing.assert_array_equal(
            read_image(store(tmp_path, content)), with_pillow(sound))
    with pytest.raises(ImageError):
        read_image(store(tmp_path, sound[:-2]))


@pytest.mark.parametrize('reduction', [2, 4, 8])
def test_reduced_decoding_keeps_the_image(tmp_path, reduction):
    y, x = np.mgrid[:208, :304]
    image = np.stack([x * 255 / 304, y * 255 / 208, (x + y) / 2], axis=-1)
    file = ImageFile(store(tmp_path, encode(image.astype(np.uint8),
                                            quality=95)))
    found = file.decode(reduction)
    assert found.shape[:2] == (208 // reduction, 304 // reduction)
    expected = Image.fromarray(file.decode()).resize(
        found.shape[1::-1], Image.Resampling.BOX)
    assert np.abs(found - np.asarray(expected, int)).mean() <= 1


def test_a_broken_link_says_where_it_points(tmp_path):
    """Also through another link."""
    (tmp_path / 'one.png').symlink_to(tmp_path / 'two.png')
    (tmp_path / 'two.png').symlink_to(tmp_path / 'gone/three.png')
    with pytest.raises(ImageError, match="one.png' is a link to '.*gone/three"
                       ".png', which does not exist"):
        read_image(str(tmp_path / 'one.png'))


def test_what_is_not_a_file(tmp_path):
    os.mkfifo(tmp_path / 'pipe.jpg')
    (tmp_path / 'folder.jpg').mkdir()
    (tmp_path / 'link.jpg').symlink_to('nowhere.jpg')
    (tmp_path / 'empty.jpg').touch()
    for name in ('pipe', 'folder', 'link', 'empty', 'missing'):
        with pytest.raises(ImageError, match=f'{name}.jpg'):
            read_image(str(tmp_path / f'{name}.jpg'))


@pytest.mark.parametrize('form', ['JPEG', 'PNG', 'GIF', 'BMP'])
def test_bombs_are_refused_before_they_unpack(tmp_path, form):
    content = bytearray(encode(draw(), form))
    place, size = dict(
        JPEG=(content.find(b'\xff\xc0') + 5, b'\xff\xf0\xff\xf0'),
        PNG=(16, b'\0\1\0\0\0\1\0\0'), GIF=(6, b'\xff\xff\xff\xff'),
        BMP=(18, b'\0\0\1\0\0\0\1\0'))[form]
    content[place:place + len(size)] = size
    with pytest.raises(ImageError):
        read_image(store(tmp_path, bytes(content)))
