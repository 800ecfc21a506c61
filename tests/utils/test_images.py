# Copyright (c) QB-Heat MM authors. All rights reserved.
import numpy as np
import pytest
from PIL import Image

from qbheat_mm.datasets.image_lists import (
    find_images,
    fit,
    load_images,
    short_names,
)
from qbheat_mm.errors import UserError


@pytest.fixture
def picture():
    """A smooth colour picture, 40 x 56, RGB."""
    y, x = np.mgrid[:40, :56]
    channels = [4 * x + 10, 5 * y + 20, 250 - 4 * x]
    return np.stack(channels, axis=-1).clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize('name,mode,tolerance', [
    ('a.png', 'RGB', 0), ('a.png', 'RGBA', 0), ('a.jpg', 'RGB', 6),
    ('a.JPG', 'CMYK', 6), ('a.tif', 'RGB', 0), ('a.bmp', 'RGB', 0)])
def test_colour_files_have_their_colours(tmp_path, picture, name, mode,
                                         tolerance):
    options = dict(quality=98, subsampling=0) if 'J' in name.upper() else {}
    Image.fromarray(picture).convert(mode).save(tmp_path / name, **options)
    files = find_images([str(tmp_path)])
    _, (image, ) = load_images(files, None)
    difference = image[..., ::-1].astype(int) - picture
    assert abs(difference).max() <= tolerance


@pytest.mark.parametrize('mode', ['L', 'LA', '1', 'P', 'I;16'])
def test_files_of_one_channel_become_grey(tmp_path, picture, mode):
    image = Image.fromarray(picture)
    if mode == 'I;16':
        image = Image.fromarray(
            np.asarray(image.convert('L')).astype(np.uint16) * 257)
    else:
        image = image.convert('L').convert(mode)
    image.save(tmp_path / 'a.png')
    _, (loaded, ) = load_images([str(tmp_path / 'a.png')], None)
    assert loaded.shape == (40, 56, 3) and loaded.dtype == np.uint8
    assert np.array_equal(loaded[..., 0], loaded[..., 2])


def test_folders_are_searched_and_sorted(tmp_path, picture):
    (tmp_path / 'z').mkdir()
    for name in ('b.png', 'a.PNG', 'z/c.jpeg', 'notes.txt'):
        with open(tmp_path / name, 'wb') as file:
            Image.fromarray(picture).save(file, 'PNG')
    found = find_images([str(tmp_path), str(tmp_path / 'b.png')])
    assert [file[len(str(tmp_path)) + 1:] for file in found] == [
        'a.PNG', 'b.png', 'z/c.jpeg', 'b.png']


@pytest.mark.parametrize('files, names', [
    (['a/1.png', 'a/2.png'], ['1.png', '2.png']),
    (['a/1.png', 'b/1.png', 'b/2.png'], ['a/1.png', 'b/1.png', 'b/2.png']),
    (['in/train/a/1.png', 'in/val/a/1.png'], ['train/a/1.png', 'val/a/1.png']),
    (['a/1.png', '/a/1.png', '/1.png'], ['a/1.png', '/a/1.png', '/1.png']),
    (['./1.png', '1.png'], ['./1.png', '1.png']),
    (['a/1.png', 'a/1.png', 'a/2.png'], ['1.png', '1.png', '2.png']),
    ([], [])])
def test_short_names_tell_files_apart(files, names):
    assert short_names(files) == names


def test_an_empty_folder_is_an_error(tmp_path):
    with pytest.raises(UserError, match=f"'{tmp_path}' holds no image"):
        find_images([str(tmp_path)])
    with pytest.raises(UserError, match="'nowhere.png' does not exist"):
        find_images(['nowhere.png'])


def test_a_corrupt_file_is_named_and_the_rest_goes_on(tmp_path, picture,
                                                      monkeypatch):
    told = []
    monkeypatch.setattr('qbheat_mm.datasets.image_lists.print_log',
                        lambda message, **kwargs: told.append(message))
    Image.fromarray(picture).save(tmp_path / 'good.jpg')
    content = (tmp_path / 'good.jpg').read_bytes()
    (tmp_path / 'bad.jpg').write_bytes(b'no image at all')
    (tmp_path / 'cut.jpg').write_bytes(content[:len(content) // 2])
    names, images = load_images(find_images([str(tmp_path)]), None)
    assert names == [str(tmp_path / 'good.jpg')] and len(images) == 1
    assert [line.split(' is ')[0] for line in told] == [
        f"skipped: image '{tmp_path / name}'" for name in ('bad.jpg',
                                                           'cut.jpg')]


def test_nothing_but_corrupt_files_is_an_error(tmp_path):
    (tmp_path / 'bad.jpg').write_bytes(b'no image at all')
    with pytest.raises(UserError, match='none of 1 files.*bad.jpg'):
        load_images([str(tmp_path / 'bad.jpg')], None)


@pytest.mark.parametrize('shape', [(7, 300), (300, 7), (64, 64), (1, 1),
                                   (33, 31)])
def test_any_size_fits(tmp_path, shape):
    image = np.full((*shape, 3), 200, np.uint8)
    assert fit(image, (32, 48)).shape == (32, 48, 3)
    assert np.all(fit(image, (32, 48)) == 200)
    Image.fromarray(image).save(tmp_path / 'a.png')
    _, (own, ) = load_images([str(tmp_path / 'a.png')], None, unit=16)
    assert own.shape[0] % 16 == own.shape[1] % 16 == 0
    assert abs(own.shape[0] - shape[0]) <= max(8, 16 - shape[0])


def test_the_middle_is_kept_undistorted():
    image = np.zeros((100, 300, 3), np.uint8)
    image[:, 100:200] = 255
    found = fit(image, (50, 50))
    assert found.min() > 250


def test_a_smaller_picture_has_the_means_of_the_larger():
    fine = np.indices((64, 64)).sum(0) % 2 * 200
    image = np.repeat(fine[..., None], 3, 2).astype(np.uint8)
    assert np.all(fit(image, (16, 16)) == 100)


def test_a_larger_picture_is_smooth():
    image = np.repeat(np.arange(0, 240, 30)[:, None], 8, 1)
    image = np.repeat(image[..., None], 3, 2).astype(np.uint8)
    steps = np.diff(fit(image, (64, 64))[8:-8, 0, 0].astype(int))
    assert steps.max() < 10 and steps.min() >= 0
