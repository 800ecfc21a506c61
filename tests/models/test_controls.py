# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Controls of QB-Heat, without the heat equation."""
from types import SimpleNamespace

import pytest
import torch

from qbheat_mm.analysis.hook import AnalysisHook
from qbheat_mm.analysis.spectrum import describe_predictor
from qbheat_mm.errors import UserError
from qbheat_mm.models.selfsup.qbheat_predictor import QBHeatPredictor

from .test_qbheat import QUARTERS, qbheat


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


@pytest.mark.parametrize('settings', [
    dict(prediction='copy'), dict(prediction='mask_token'),
    dict(kind='RandomMasking')])
def test_controls_train_every_parameter(settings):
    model = qbheat(**settings)
    model.loss(torch.randn(4, 3, 64, 64))['loss'].backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None or not parameter.requires_grad, name
    if 'prediction' in settings:
        assert describe_predictor(model.predictor) == {}


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


def test_random_masking_cannot_reconstruct_from_a_quarter():
    model = qbheat(kind='RandomMasking')
    with pytest.raises(UserError, match='cannot reconstruct'):
        model.predict_pixels(torch.randn(2, 3, 64, 64), [('center', 2)])
    hook = AnalysisHook()
    with pytest.raises(UserError, match='RandomMasking'):
        hook.before_train(SimpleNamespace(model=model))
