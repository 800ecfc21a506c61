# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Finding images for the tools, and bringing them to a size."""
import numpy as np
import pytest
from PIL import Image

from qbheat_mm.datasets import find_images, fit, load_images, short_names
from qbheat_mm.errors import UserError

from .pictures import draw, encode


def test_folders_are_searched_and_sorted(tmp_path):
    (tmp_path / 'z').mkdir()
    for name in ('b.png', 'a.PNG', 'z/c.jpeg', 'notes.txt'):
        (tmp_path / name).write_bytes(encode(draw()))
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


def test_unreadable_files_are_skipped_with_a_warning(tmp_path, logged):
    sound = encode(draw())
    for name, content in (('good', sound), ('bad', b'no image'),
                          ('cut', sound[:len(sound) // 2])):
        (tmp_path / f'{name}.jpg').write_bytes(content)
    names, images = load_images(find_images([str(tmp_path)]), None)
    assert names == [str(tmp_path / 'good.jpg')]
    assert images[0].shape == (48, 64, 3)
    assert 'bad.jpg' in logged[0] and 'cut.jpg' in logged[1]
    with pytest.raises(UserError, match='none of 1 images.*bad.jpg'):
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


def test_the_center_is_kept_undistorted():
    image = np.zeros((100, 300, 3), np.uint8)
    image[:, 100:200] = 255
    for each in (image, image.swapaxes(0, 1)):
        assert fit(each, (50, 50)).min() > 250
    rows = np.arange(100, dtype=np.uint8).repeat(30).reshape(100, 10, 3)
    np.testing.assert_array_equal(fit(rows, (10, 10)), rows[45:55])
    columns = rows.swapaxes(0, 1)
    np.testing.assert_array_equal(fit(columns, (10, 10)), columns[:, 45:55])


def test_a_smaller_image_has_the_means_of_the_larger():
    fine = np.indices((64, 64)).sum(0) % 2 * 200
    image = np.repeat(fine[..., None], 3, 2).astype(np.uint8)
    assert np.all(fit(image, (16, 16)) == 100)
