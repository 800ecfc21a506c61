# Copyright (c) QB-Heat MM authors. All rights reserved.
import numpy as np
import pytest
import torch

from qbheat_mm.analysis.direction_loss import (
    direction_losses,
    direction_regions,
)
from qbheat_mm.analysis.pixels import PixelSpace
from qbheat_mm.analysis.reconstruction import (
    GREY_LEVELS_PER_STD,
    QUARTERS,
    Reconstruction,
    extrapolate,
    hide,
    reconstruct,
    render,
    strips,
    trained_positions,
)
from qbheat_mm.errors import UserError
from qbheat_mm.models.selfsup.quarters import quarter_offset


def boxes(position, height, width):
    top, left = quarter_offset(position, height, width)
    return (slice(top, top + height // 2), slice(left, left + width // 2))


def with_other_masked_pixels(images, position):
    """The same visible quarter in another image."""
    rows, columns = boxes(position, *images.shape[2:])
    other = 3 * torch.randn_like(images) + 1
    other[..., rows, columns] = images[..., rows, columns]
    return other


@pytest.fixture
def model(build):
    return build()


@pytest.mark.parametrize('position', QUARTERS)
@pytest.mark.parametrize('norm_pix,statistics', [
    (True, 'contrast'), (True, 'visible'), (False, 'contrast')])
def test_nothing_comes_from_the_masked_pixels(build, images, position, norm_pix,
                                              statistics):
    model = build(norm_pix=norm_pix)
    pixels = PixelSpace(model.data_preprocessor)
    shown = [
        render(reconstruct(model, inputs, position), model, pixels, statistics)
        for inputs in (images, with_other_masked_pixels(images, position))
    ]
    assert np.array_equal(*shown)


def test_true_statistics_do_come_from_the_masked_pixels(model, images):
    pixels = PixelSpace(model.data_preprocessor)
    other = with_other_masked_pixels(images, 'center')
    shown = [render(reconstruct(model, inputs, 'center'), model, pixels,
                    'true')
             for inputs in (images, other)]
    assert not np.array_equal(*shown)


def perfect(model, images, position):
    """A reconstruction of exactly the target."""
    head = model.head
    pred = head.unpatchify(head.target(images), *images.shape[2:])
    reconstruction = reconstruct(model, images, position)
    return Reconstruction(position, images, pred, reconstruction.mask,
                          reconstruction.errors)


def test_a_perfect_prediction_with_true_statistics_is_the_image(
        model, images):
    pixels = PixelSpace(model.data_preprocessor)
    shown = render(perfect(model, images, 'center'), model, pixels, 'true')
    difference = shown.astype(int) - pixels.picture(images)
    assert abs(difference).max() <= 1


def test_contrast_is_around_mid_grey(model, images):
    pixels = PixelSpace(model.data_preprocessor)
    reconstruction = perfect(model, images, 'top_left')
    flat = Reconstruction('top_left', images, torch.zeros_like(images),
                    reconstruction.mask, reconstruction.errors)
    shown = render(flat, model, pixels, 'contrast')
    rows, columns = boxes('top_left', 32, 48)
    assert np.array_equal(shown[:, rows, columns],
                          pixels.picture(images)[:, rows, columns])
    shown[:, rows, columns] = 128
    assert np.all(shown == 128)
    one = Reconstruction('top_left', images, torch.ones_like(images), reconstruction.mask,
                   reconstruction.errors)
    assert render(one, model, pixels, 'contrast')[0, -1, -1, 0] == round(
        127.5 + GREY_LEVELS_PER_STD)


def test_the_error_is_the_training_loss(model, images):
    for position in QUARTERS:
        reconstruction = reconstruct(model, images, position)
        positions = [(position, len(images))]
        with torch.no_grad():
            expected = model.head.loss(
                model.predict_pixels(images, positions), images,
                model.mask(images, positions))
        assert reconstruction.errors.mean().item() == pytest.approx(expected.item())
        assert reconstruction.errors[0] != reconstruction.errors[1]


def test_what_was_given_is_the_quarter_alone(model, images):
    pixels = PixelSpace(model.data_preprocessor)
    shown = hide(reconstruct(model, images, 'bottom_right'), pixels)
    rows, columns = boxes('bottom_right', 32, 48)
    expected = np.full_like(shown, 128)
    expected[:, rows, columns] = pixels.picture(images)[:, rows, columns]
    assert np.array_equal(shown, expected)


def test_strips_show_three_columns_of_each_image(model, images):
    pixels = PixelSpace(model.data_preprocessor)
    picture = strips(reconstruct(model, images, 'center'), model, pixels)
    assert picture.shape == (64, 144, 3) and picture.dtype == np.uint8
    assert np.array_equal(picture[32:, :48], pixels.picture(images)[1])


def test_a_place_that_was_not_trained_is_refused(build, images):
    model = build(position='corner')
    assert 'center' not in trained_positions(model)
    with pytest.raises(UserError, match="'center'.*position='corner'.*top_l"):
        reconstruct(model, images, 'center')
    assert trained_positions(build(position='center')) == ('center', )


def test_reconstructing_leaves_the_mode(model, images):
    model.train()
    model.backbone.eval()
    reconstruct(model, images, 'center')
    direction_losses(model, images)
    assert model.training and not model.backbone.stem.training


def test_extrapolation_keeps_constants_and_the_visible_values():
    visible = torch.zeros(4, 6, dtype=torch.bool)
    visible[:2, :3] = True
    values = torch.randn(2, 24)
    values[0] = 5
    found = extrapolate(values, visible)
    assert torch.allclose(found[0], torch.full((24, ), 5.))
    seen = visible.flatten()
    assert torch.equal(found[:, seen], values[:, seen])
    assert found[1].max() <= values[1, seen].max()
    # The nearest patch counts most: right of the quarter's last in a row.
    single = torch.zeros(1, 24)
    single[0, 2] = 1
    assert extrapolate(single, visible)[0, 3] > 0.5


@pytest.mark.parametrize('position', QUARTERS)
def test_directions_cover_the_masked_patches_once(model, images, position):
    regions = direction_regions(position, 8, 12)
    mask = model.mask(images, [(position, 2)])[0].view(8, 12)
    assert torch.equal(sum(regions.values()), mask)
    assert len(regions) == (8 if position == 'center' else 3)
    assert {scale for scale, _ in regions} == {
        'quarter' if position == 'center' else 'half'}


def test_directions_are_the_predictors(model, images):
    """A matrix that is changed changes the map where its direction says."""
    from qbheat_mm.models.layers.linear_extrapolation import DIRECTIONS
    z = torch.randn(1, 20, 4, 6)
    with torch.no_grad():
        for position in QUARTERS:
            positions = [(position, 1)]
            before = model.predictor(z, positions)[0]
            for (scale, name), region in direction_regions(
                    position, 8, 12).items():
                linear = getattr(model.predictor, f'{scale}_step')
                index = list(DIRECTIONS).index(name)
                kept = linear.weight[index].clone()
                linear.weight[index] += 1
                changed = (model.predictor(z, positions)[0] != before).any(-1)
                linear.weight[index] = kept
                assert torch.equal(changed, region > 0), (position, name)


def test_losses_of_directions_add_up(build, images):
    for position in ('corner', 'center'):
        model = build(position=position)
        losses = direction_losses(model, images)
        assert len(losses) == 8
        weights = {'quarter': {True: 1, False: 2}, 'half': {
            True: 1, False: 2}}
        # A corner's diagonal is met from one corner, its sides from two; a
        # side of the center is twice as wide as a diagonal.
        total = count = 0
        for name, loss in losses.items():
            scale, direction = name.split('/')
            weight = weights[scale]['_' in direction]
            total, count = total + weight * loss, count + weight
        expected = np.mean([reconstruct(model, images, position).errors.mean().item()
                            for position in trained_positions(model)])
        assert total / count == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize('to_rgb', [True, False])
@pytest.mark.parametrize('mean', [[10., 20., 30.], None])
def test_pixels_there_and_back(build, to_rgb, mean):
    settings = dict(type='SelfSupDataPreprocessor', to_rgb=to_rgb)
    if mean:
        settings.update(mean=mean, std=[2., 3., 4.])
    pixels = PixelSpace(build(data_preprocessor=settings).data_preprocessor)
    assert pixels.model_is_rgb == to_rgb
    bgr = torch.randint(256, (2, 3, 5, 4), dtype=torch.uint8)
    shown = pixels.picture(pixels.normalize(bgr))
    assert np.array_equal(shown, bgr.flip(1).permute(0, 2, 3, 1).numpy())
