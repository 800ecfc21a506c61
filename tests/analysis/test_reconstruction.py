# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Reconstructions are honest: nothing comes from the masked pixels."""
from dataclasses import replace

import numpy as np
import pytest
import torch

from qbheat_mm.analysis.reconstruction import (
    GREY_LEVELS_PER_STD,
    QUARTERS,
    extrapolate,
    reconstruct,
    render,
    strips,
    to_picture,
    trained_positions,
)
from qbheat_mm.errors import UserError
from qbheat_mm.models.selfsup.quarters import quarter_offset
from qbheat_mm.trained import Normalization, Normalize


def quarter_of(position, height, width):
    top, left = quarter_offset(position, height, width)
    return (slice(top, top + height // 2), slice(left, left + width // 2))


def with_other_masked_pixels(images, position):
    """The same visible quarter in another image."""
    rows, columns = quarter_of(position, *images.shape[2:])
    other = 3 * torch.randn_like(images) + 1
    other[..., rows, columns] = images[..., rows, columns]
    return other


@pytest.fixture
def model(build):
    return build()


@pytest.fixture
def normalize(model):
    return Normalize(Normalization.of(model))


@pytest.mark.parametrize('position', QUARTERS)
@pytest.mark.parametrize('norm_pix,statistics', [
    (True, 'contrast'), (True, 'visible'), (False, 'contrast'),
    (True, 'true')])
def test_nothing_but_true_statistics_comes_from_the_masked_pixels(
        build, normalize, images, position, norm_pix, statistics):
    model = build(norm_pix=norm_pix)
    shown = [render(reconstruct(model, inputs, position), model, normalize,
                    statistics)
             for inputs in (images,
                            with_other_masked_pixels(images, position))]
    assert np.array_equal(*shown) == (statistics != 'true')


def test_a_perfect_prediction_with_true_statistics_is_the_image(
        model, normalize, images):
    head = model.head
    perfect = replace(
        reconstruct(model, images, 'center'),
        pred=head.unpatchify(head.target(images), *images.shape[2:]))
    shown = render(perfect, model, normalize, 'true').astype(int)
    expected = to_picture(normalize.inverse(images))
    assert abs(shown - expected).max() <= 1


def test_contrast_is_around_mid_grey(model, normalize, images):
    flat = replace(reconstruct(model, images, 'top_left'),
                   pred=torch.zeros_like(images))
    shown = render(flat, model, normalize, 'contrast')
    rows, columns = quarter_of('top_left', 32, 48)
    assert np.array_equal(
        shown[:, rows, columns],
        to_picture(normalize.inverse(images))[:, rows, columns])
    shown[:, rows, columns] = 128
    assert np.all(shown == 128)
    flat.pred[:, 0] = 1
    level = round(127.5 + GREY_LEVELS_PER_STD)
    for rgb, expected in ((True, [level, 128, 128]),
                          (False, [128, 128, level])):
        shown = render(flat, model, Normalize(Normalization(rgb=rgb)),
                       'contrast')
        assert shown[0, -1, -1].tolist() == expected


@pytest.mark.parametrize('position', QUARTERS)
def test_the_error_is_the_training_loss(model, images, position):
    model.train()
    model.backbone.eval()
    errors = reconstruct(model, images, position).errors
    # Modes are restored.
    assert model.training and not model.backbone.stem.training
    model.eval()
    positions = [(position, len(images))]
    with torch.no_grad():
        expected = model.head.loss(
            model.predict_pixels(images, positions), images,
            model.mask(images, positions))
    assert errors.mean().item() == pytest.approx(expected.item())
    assert errors[0] != errors[1]


def test_strips_show_three_columns_of_each_image(model, normalize, images):
    found = reconstruct(model, images, 'bottom_right')
    originals, visible, predicted = np.split(
        strips(found, model, normalize).reshape(2, 32, 144, 3), 3, axis=2)
    assert np.array_equal(originals, to_picture(normalize.inverse(images)))
    rows, columns = quarter_of('bottom_right', 32, 48)
    expected = np.full_like(originals, 128)
    expected[:, rows, columns] = originals[:, rows, columns]
    assert np.array_equal(visible, expected)
    assert np.array_equal(
        predicted, render(found, model, normalize, 'contrast'))


def test_a_position_that_was_not_trained_is_refused(build, images):
    model = build(position='corner')
    assert 'center' not in trained_positions(model)
    with pytest.raises(UserError, match="'center'.*position='corner'"):
        reconstruct(model, images, 'center')


def test_extrapolation_keeps_constants_and_the_visible_values():
    visible = torch.zeros(4, 6, dtype=torch.bool)
    visible[:2, :3] = True
    values = torch.randn(2, 24)
    values[0] = 5
    found = extrapolate(values, visible)
    assert torch.allclose(found[0], torch.full((24, ), 5.))
    seen = visible.flatten()
    assert torch.equal(found[:, seen], values[:, seen])
    # The nearest patch counts most: right of the quarter's last in a row.
    single = torch.zeros(1, 24)
    single[0, 2] = 1
    assert extrapolate(single, visible)[0, 3] > 0.5
