"""QB-Heat and its controls: what is seen, and predicted from where."""
import sys
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mmpretrain.registry import MODELS

from qbheat_mm.analysis.hook import AnalysisHook
from qbheat_mm.analysis.spectrum import describe_predictor
from qbheat_mm.errors import UserError
from qbheat_mm.models.selfsup.qbheat import reject_pixel_attention
from qbheat_mm.models.selfsup.qbheat_predictor import QBHeatPredictor
from qbheat_mm.models.selfsup.quarters import (
    sample_positions,
)
from qbheat_mm.models.selfsup.targets import ImageTargets

from ..helpers.models import qbheat

# Column and row of each corner.
CORNERS = dict(
    top_left=(0, 0), top_right=(1, 0), bottom_left=(0, 1), bottom_right=(1, 1))
QUARTERS = (*CORNERS, 'center')


HOG = dict(type='HOGGenerator')


def source_of(y, x, position, size):
    """Return the source of a predicted position, and the direction.

    Section 4.1: each masked position
    is predicted from the only unmasked one that is half an image (corner) or
    a quarter of it (center) away, horizontally, vertically or both.
    """
    if position == 'center':
        step, low, high = size // 4, size // 4, 3 * size // 4
    else:
        column, row = CORNERS[position]
        step = size // 2

    def one_axis(index, corner_index):
        if position == 'center':
            inside = low <= index < high
            direction = 0 if inside else (-1 if index < low else 1)
        else:
            inside = index // step == corner_index
            direction = 0 if inside else (1 if corner_index == 0 else -1)
        return index - direction * step, direction

    source_x, step_x = one_axis(x, 0 if position == 'center' else column)
    source_y, step_y = one_axis(y, 0 if position == 'center' else row)
    return source_y, source_x, (step_x, step_y)


@pytest.mark.parametrize('position', QUARTERS)
@pytest.mark.parametrize('num_models', [2, 4, 8])
def test_map_equals_a_slow_loop_over_positions(position, num_models):
    predictor = QBHeatPredictor(6, embed_dims=5, num_models=num_models)
    predictor = predictor.double()
    size, batch = 16, 2
    feats = torch.randn(batch, 6, size // 2, size // 2).double()

    out = predictor(feats, [(position, batch)])

    models = (predictor.quarter_step if position == 'center'
              else predictor.half_step)
    column, row = (0.5, 0.5) if position == 'center' else CORNERS[position]
    top, left = int(row * size / 2), int(column * size / 2)
    expected = torch.zeros(batch, size, size, 5, dtype=torch.double)
    for y in range(size):
        for x in range(size):
            source_y, source_x, step = source_of(y, x, position, size)
            z = predictor.proj(feats[:, :, source_y - top, source_x - left])
            if step != (0, 0):
                z = z + z @ models.matrix(step).T
            expected[:, y, x] = z
    torch.testing.assert_close(out, expected)


@given(st.lists(st.tuples(st.sampled_from(QUARTERS), st.integers(1, 3)),
                min_size=1, max_size=8))
def test_positions_of_a_batch_do_not_mix(positions):
    """In any order, with any counts."""
    predictor = QBHeatPredictor(6, embed_dims=5)
    feats = torch.randn(sum(count for _, count in positions), 6, 4, 4)
    together = predictor(feats, positions)
    start = 0
    for position, count in positions:
        images = slice(start, start + count)
        alone = predictor(feats[images], [(position, count)])
        torch.testing.assert_close(together[images], alone)
        start += count
    assert len(together) == start


@pytest.mark.parametrize('position', QUARTERS)
def test_masked_pixels_do_not_reach_the_encoder(position):
    model = qbheat().eval().requires_grad_(False)
    images = torch.randn(2, 3, 128, 192)
    positions = [(position, 2)]
    patches = model.mask(images, positions)[..., None].expand(-1, -1, 768)
    mask = model.head.unpatchify(patches, 128, 192).bool()
    assert mask.float().mean() == 0.75
    others = torch.where(mask, torch.randn_like(images), images)

    seen = model.predict_pixels(images, positions)
    assert torch.equal(seen, model.predict_pixels(others, positions))
    visible_changed = torch.where(mask, images, images + 1)
    changed = model.predict_pixels(visible_changed, positions)
    assert not torch.equal(seen, changed)


@pytest.mark.parametrize('position, top, left', [
    ('top_left', 0, 0), ('top_right', 0, 96), ('bottom_left', 64, 0),
    ('bottom_right', 64, 96), ('center', 32, 48)])
def test_quarters_are_cropped_at_their_position(position, top, left):
    rows, columns = torch.meshgrid(torch.arange(128), torch.arange(192),
                                   indexing='ij')
    images = torch.stack([rows, columns, rows])[None].float()
    quarter, = qbheat().crop(images, [(position, 1)])
    assert quarter.shape == (3, 64, 96)
    assert quarter[:2, 0, 0].tolist() == [top, left]
    assert quarter[:2, -1, -1].tolist() == [top + 63, left + 95]


def test_encoder_is_called_once_with_the_quarters():
    model = qbheat()
    shapes = []
    model.backbone.register_forward_pre_hook(
        lambda module, args: shapes.append(tuple(args[0].shape)))
    model(torch.randn(6, 3, 128, 192), mode='loss')
    assert shapes == [(6, 3, 64, 96)]


@pytest.mark.parametrize('settings', [
    *(dict(position=position, num_models=number)
      for position in ('corner', 'center', 'mixed') for number in (2, 4, 8)),
    dict(prediction='copy'), dict(prediction='mask_token'),
    dict(kind='RandomMasking')])
def test_every_parameter_gets_a_gradient(settings):
    model = qbheat(**settings)
    model(torch.randn(4, 3, 64, 64), mode='loss')['loss'].backward()
    without = [n for n, p in model.named_parameters()
               if p.grad is None and p.requires_grad]
    assert not without
    silent = [
        n for n, p in model.named_parameters()
        if not p.grad.abs().sum() > 0 and n.startswith('backbone')
    ]
    assert not silent


@pytest.mark.parametrize('position', ['corner', 'center', 'mixed'])
def test_predicting_only_masked_patches_gives_the_same_gradients(
        position, monkeypatch):
    model = qbheat(position=position).double()
    images = torch.randn(6, 3, 128, 64).double()
    positions = sample_positions(6, position)
    monkeypatch.setattr(sys.modules[type(model).__module__],
                        'sample_positions', lambda *args: positions)
    predicted = []
    model.neck.pixels.register_forward_hook(
        lambda module, args, out: predicted.append(out.shape[1]))

    def loss_and_gradients(loss):
        model.zero_grad()
        loss.backward()
        return loss, [p.grad.clone() for p in model.parameters()]

    whole = loss_and_gradients(model.head.loss(
        model.predict_pixels(images, positions), images,
        model.mask(images, positions)))
    step = loss_and_gradients(model.loss(images)['loss'])
    torch.testing.assert_close(step, whole, rtol=1e-9, atol=1e-12)
    assert predicted == [32, 24]


def test_mixed_halves_the_batch_and_spreads_corners():
    for _ in range(8):
        positions = dict(sample_positions(16, 'mixed'))
        assert positions.pop('center') == 8
        assert positions == dict.fromkeys(CORNERS, 2)
    torch.manual_seed(0)
    seen = {sample_positions(2, 'mixed')[0][0] for _ in range(64)}
    assert seen == set(CORNERS)
    assert sum(n for _, n in sample_positions(7, 'corner')) == 7
    assert dict(sample_positions(3, 'mixed'))['center'] == 2


@pytest.mark.parametrize('kwargs, width, message', [
    (dict(position='corners'), 64, "position='corners'.*'corner', 'center'"),
    (dict(num_models=6), 64, 'num_models=6'),
    (dict(), 100, '64x100 .*multiples of 64.*to 64x128'),
    (dict(position='corner'), 100, 'multiples of 32.*to 64x96'),
    (dict(in_channels=99), 64, r'\(24, 2, 2\).*\(99, 2, 2\)'),
    (dict(patch_size=8), 64, r'\(24, 2, 2\).*\(24, 4, 4\)'),
])
def test_bad_settings_are_named_with_the_fix(kwargs, width, message):
    with pytest.raises(UserError, match=message):
        qbheat(**kwargs)(torch.randn(2, 3, 64, width), mode='loss')


def test_modes():
    model = qbheat().eval()
    images = torch.randn(2, 3, 64, 64)
    for features in (model(images), model(images, mode='tensor')):
        assert torch.equal(features[0], model.backbone(images)[0])
    assert set(model(images, mode='loss')) == {'loss'}
    with pytest.raises(RuntimeError, match="mode='predict'"):
        model(images, mode='predict')


def test_mixed_needs_two_images():
    with pytest.raises(UserError, match='not 1: .*drop_last'):
        qbheat()(torch.randn(1, 3, 64, 64), mode='loss')


@pytest.mark.parametrize('settings', [
    dict(type='VisionTransformer', arch='deit-tiny', img_size=64),
    dict(type='SwinTransformer', arch='tiny', img_size=64),
])
def test_transformers_are_rejected_unless_allowed(settings):
    with pytest.raises(UserError, match='Transformer cannot be the encoder'):
        qbheat(settings)
    qbheat(settings, allow_pixel_attention=True)


def test_channel_attention_is_accepted():
    class Attention(torch.nn.Module):
        """A class of another package."""

    reject_pixel_attention(torch.nn.Sequential(Attention()))
    reject_pixel_attention(MODELS.build(dict(type='SEResNet', depth=50)))


@pytest.mark.parametrize('position', QUARTERS)
def test_copied_features_equal_linear_models_of_zero(position):
    linear = QBHeatPredictor(6, embed_dims=8)
    copied = QBHeatPredictor(6, embed_dims=8, prediction='copy')
    copied.load_state_dict(linear.state_dict(), strict=False)
    for step in (linear.half_step, linear.quarter_step):
        step.weight.data.zero_()
    feats = torch.randn(2, 6, 4, 4)
    assert torch.equal(linear(feats, [(position, 2)]),
                       copied(feats, [(position, 2)]))


@pytest.mark.parametrize('position', QUARTERS)
def test_a_mask_token_does_not_depend_on_the_image(position):
    predictor = QBHeatPredictor(6, embed_dims=8, prediction='mask_token')
    first, second = (predictor(torch.randn(1, 6, 4, 4), [(position, 1)])
                     for _ in range(2))
    same = (first == second).all(dim=-1)[0]
    mask = qbheat().mask(torch.zeros(1, 3, 128, 128), [(position, 1)])
    assert torch.equal(same.flatten(), mask[0].bool())
    assert len(first[0][same].unique(dim=0)) == 1


def test_controls_have_no_matrices():
    assert not describe_predictor(qbheat(prediction='copy').predictor)


def test_an_unknown_prediction_is_named():
    with pytest.raises(UserError, match="'none' is not one of 'linear'"):
        qbheat(prediction='none')


def test_random_masking_masks_three_out_of_four_patches():
    model = qbheat(kind='RandomMasking')
    images = torch.rand(4, 3, 64, 128) + 1
    masked_ids = model.sample_masked_ids(images)
    assert masked_ids.shape == (4, 24)
    assert all(len(set(row.tolist())) == 24 for row in masked_ids)
    assert not torch.equal(*masked_ids[:2].sort().values)
    before, after = (model.head.patchify(i)
                     for i in (images, model.mask_images(images, masked_ids)))
    for i, row in enumerate(masked_ids):
        shown = [n for n in range(32) if n not in set(row.tolist())]
        assert (after[i, row] == 0).all()
        assert torch.equal(after[i, shown], before[i, shown])


def test_random_masking_predicts_masked_from_visible_patches(monkeypatch):
    model = qbheat(kind='RandomMasking').eval()
    images = torch.rand(2, 3, 64, 64)
    masked_ids = model.sample_masked_ids(images)
    monkeypatch.setattr(model, 'sample_masked_ids', lambda _: masked_ids)
    with torch.no_grad():
        loss = model.loss(images)['loss']
        visible = model.mask_images(torch.ones_like(images), masked_ids)
        pred = [model.neck(model.predictor.proj(model.encode(
            model.mask_images(i, masked_ids)).permute(0, 2, 3, 1)), masked_ids)
            for i in (images, images * visible)]
        assert torch.equal(*pred)
        target = model.head.target(images).gather(
            1, masked_ids[..., None].expand(-1, -1, 768))
    assert loss == pytest.approx(float((pred[0] - target).square().mean()))


def test_analysis_needs_a_model_that_predicts_pixels_from_a_quarter():
    hook = AnalysisHook()
    with pytest.raises(UserError, match='pixels, not this RandomMasking'):
        hook.before_train(SimpleNamespace(model=qbheat(kind='RandomMasking')))
    model = qbheat(target_generator=HOG, out_channels=108)
    with pytest.raises(UserError, match='pixels, not this QBHeat'):
        hook.before_train(SimpleNamespace(model=model))
    with pytest.raises(UserError, match='no pixels'):
        model.predict_pixels(torch.randn(2, 3, 128, 128), [('center', 2)])


@pytest.mark.parametrize('size', [(128, 192), (256, 256)])
def test_hog_lies_on_the_patches_of_the_image(size):
    height, width = size[0] // 16, size[1] // 16
    images = torch.rand(2, 3, *size)
    generator = MODELS.build(dict(
        HOG, _scope_='mmpretrain', gaussian_window=0))
    found = ImageTargets(generator)(images, [], (height, width))
    assert found.shape == (2, height * width, 108)
    cells = generator.out  # (B, 3, 9, rows, columns) of 8 pixels
    for patch in range(height * width):
        y, x = divmod(patch, width)
        expected = cells[..., 2 * y:2 * y + 2, 2 * x:2 * x + 2].flatten(1)
        torch.testing.assert_close(found[:, patch].sort(1).values,
                                   expected.sort(1).values)


def test_targets_that_do_not_divide_into_patches_are_named():
    model = qbheat(target_generator=HOG, out_channels=108, patch_size=16)
    with pytest.raises(UserError, match='HOGGenerator returns 225 targets'):
        model.target_generator(torch.rand(1, 3, 240, 240), [], (14, 14))
    model = qbheat(target_generator=HOG, out_channels=100)
    with pytest.raises(UserError, match='out_channels=100, but .* 108'):
        model.loss(torch.rand(4, 3, 128, 128))


def hog_of(images, y, x):
    """The 4 cells of 8 x 8 pixels that a patch covers, (B, 108)."""
    generator = MODELS.build(dict(HOG, _scope_='mmpretrain'))
    generator(images)
    cells = generator.out  # (B, 3, 9, rows, columns)
    return torch.cat([cells[..., 2 * y + row, 2 * x + column].flatten(1)
                      for row in range(2) for column in range(2)], 1)


def pixels_of(images, y, x):
    """The pixels of a patch, which MAE normalizes, (B, 768)."""
    patch = images[..., 16 * y:16 * y + 16, 16 * x:16 * x + 16]
    patch = patch.permute(0, 2, 3, 1).flatten(1)
    variance, mean = torch.var_mean(patch, 1, keepdim=True)
    return (patch - mean) / (variance + 1e-6).sqrt()


@pytest.mark.parametrize('target', [None, HOG])
@pytest.mark.parametrize('kind', ['QBHeat', 'RandomMasking'])
def test_loss_equals_a_slow_loop_over_masked_patches(kind, target,
                                                     monkeypatch):
    """The decoder's output at all patches, and targets cut out by hand."""
    model = qbheat(
        kind=kind, target_generator=target, out_channels=target and 108,
        **(dict(position='center') if kind == 'QBHeat' else {})).eval()
    masked = [(y, x) for y in range(8) for x in range(8)
              if not (2 <= y < 6 and 2 <= x < 6)]
    if kind == 'RandomMasking':
        masked = masked[::-2]
        ids = torch.tensor([8 * y + x for y, x in masked])
        monkeypatch.setattr(model, 'sample_masked_ids',
                            lambda images: ids.expand(len(images), -1))
    features = []
    model.neck.register_forward_pre_hook(
        lambda module, inputs: features.append(inputs[0]))
    images = torch.rand(2, 3, 128, 128)
    with torch.no_grad():
        loss = model.loss(images)['loss']
        predicted = model.neck(features[0]).unflatten(1, (8, 8))
    errors = []
    for y, x in masked:
        if target:  # smooth L1
            error = (predicted[:, y, x] - hog_of(images, y, x)).abs()
            errors.append(torch.where(error < 1, error**2 / 2, error - 0.5))
        else:
            errors.append((predicted[:, y, x] - pixels_of(images, y, x))**2)
    torch.testing.assert_close(loss, torch.stack(errors).mean())
