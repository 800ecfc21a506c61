# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Boxes belong to the picture that is loaded, or the run stops."""
import numpy as np
import pytest
from mmengine.registry import TRANSFORMS
from PIL import Image

from qbheat_mm.errors import UserError

from .conftest import FORMATS, draw, encode


@pytest.fixture
def load(tmp_path):
    def load(orientation, declared, picture=None, form='JPEG', **settings):
        exif = Image.Exif()
        exif[274] = orientation
        path = tmp_path / 'a.jpg'
        path.write_bytes(encode(
            draw() if picture is None else picture, form, exif=exif))
        results = dict(img_path=str(path))
        if declared:
            results.update(height=declared[0], width=declared[1])
        return TRANSFORMS.build(dict(
            type='LoadImageFromFile', _scope_='qbheat_mm',
            **settings))(results)['img']

    return load


STORED, TURNED = (48, 64), (64, 48)


@pytest.mark.parametrize('orientation', [5, 6, 7, 8])
@pytest.mark.parametrize('form', ['JPEG', 'PNG', 'WEBP', *(
    form for form in FORMATS.values() if form == 'AVIF')])
def test_the_declared_size_tells(load, orientation, form):
    shown = load(orientation, TURNED, form=form)
    # As where no size is declared: in pre-training and classification.
    np.testing.assert_array_equal(shown, load(orientation, None, form=form))
    with pytest.raises(UserError, match=(
            f'48 x 64 pixels.*declares 64 x 48.*orientation {orientation}.*'
            'color_ignore_orientation')):
        load(orientation, STORED, form=form)
    stored = load(orientation, STORED, form=form,
                  color_type='color_ignore_orientation')
    with pytest.raises(UserError, match=(
            f'64 x 48 pixels.*as with its EXIF orientation {orientation}: '
            'leave out color_type')):
        load(orientation, TURNED, form=form,
             color_type='color_ignore_orientation')
    upright = load(1, STORED, form=form)
    np.testing.assert_array_equal(stored, upright)


@pytest.mark.parametrize('orientation,shape', [
    (2, (48, 64)), (3, (48, 64)), (4, (48, 64)), (3, (48, 48)), (5, (48, 48)),
    (6, (48, 48)), (7, (48, 48)), (8, (48, 48))])
def test_where_the_size_does_not_tell_a_warning_does(
        load, orientation, shape, monkeypatch):
    told = []
    monkeypatch.setattr('qbheat_mm.datasets.transforms.loading.print_log',
                        lambda line, **kwargs: told.append(line))
    picture = draw(*shape)
    by_default = load(orientation, shape, picture)
    assert len(told) == 1 and "a.jpg' is turned" in told.pop()
    upright = load(1, shape, picture)
    stored = load(
        orientation, shape, picture, color_type='color_ignore_orientation')
    np.testing.assert_array_equal(stored, upright)
    shown = load(orientation, shape, picture, color_type='color')
    np.testing.assert_array_equal(shown, by_default)
    np.testing.assert_array_equal(shown, load(orientation, None, picture))
    assert not told  # where a setting says which
    assert (shown != stored).any()


@pytest.mark.parametrize('orientation', [2, 3, 4])
def test_a_half_turn_explains_no_other_size(load, orientation):
    with pytest.raises(UserError, match='boxes of another size do not fit'):
        load(orientation, TURNED)


@pytest.mark.parametrize('declared', [
    (24, 32), (96, 128), (64, 48), (48, 65), (0, 0)])
def test_another_size_is_another_picture(load, declared):
    height, width = declared
    with pytest.raises(UserError, match=(
            f"a.jpg' has 64 x 48 pixels.*declares {width} x {height}")):
        load(1, declared)


@pytest.mark.parametrize('orientation', [0, 1, 9, 255])
def test_orientations_that_turn_nothing(load, orientation):
    np.testing.assert_array_equal(
        load(orientation, STORED), load(1, STORED))
