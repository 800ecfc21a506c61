# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What a pre-training step costs a GPU: operators, casts, graphs."""
import pytest
import torch
from mmengine.config import Config
from mmpretrain.registry import MODELS
from torch import nn

from benchmarks.counters import operator_counter
from qbheat_mm.models.layers.autocast import cast_at_once
from qbheat_mm.models.selfsup.quarters import (
    masked_patch_ids,
    sample_positions,
)

from ..helpers.models import TINY, qbheat
from ..helpers.tools import ROOT


@pytest.mark.parametrize('size', ['285m', '3.7g'])
def test_a_step_issues_few_operators(size):
    """Without the optimizer; mmpretrain's MAE with ViT-S/16 has 1,211."""
    cfg = Config.fromfile(
        f'{ROOT}/configs/qbheat/qbheat_mf-{size}_8xb128-amp-coslr-100e_in1k.py')
    model = MODELS.build(cfg.model).train()
    for _ in range(2):  # the first one computes position embeddings, too
        model.zero_grad()
        with operator_counter() as found:
            with torch.autocast('cpu', torch.bfloat16):
                loss = model(torch.randn(8, 3, 64, 64), mode='loss')['loss']
            loss.backward()
    assert found.total() <= 1993


def test_weights_cast_at_once_change_nothing():
    model = qbheat()
    images = torch.randn(4, 3, 64, 64)
    found = []
    for run in (cast_at_once, lambda part, kind, *inputs: part(*inputs)):
        model._run = run
        model.zero_grad()
        torch.manual_seed(0)
        with torch.autocast('cpu', torch.bfloat16):
            loss = model(images, mode='loss')['loss']
        loss.backward()
        found.append([loss, *(p.grad for p in model.parameters())])
    for at_once, one_by_one in zip(*found):
        assert torch.equal(at_once, one_by_one)


def test_frozen_and_other_weights_are_not_cast():
    layers = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    layers.requires_grad_(False)
    with torch.autocast('cpu', torch.bfloat16):
        out = cast_at_once(layers, nn.Linear, torch.ones(2, 3))
        expected = layers(torch.ones(2, 3))
        assert cast_at_once(layers, nn.Conv2d, torch.ones(2, 3)).equal(out)
    assert torch.equal(out, expected)


def test_encoder_predictor_and_decoder_compile_as_whole_graphs():
    model = qbheat()
    positions = sample_positions(8, 'mixed')
    parts = [
        (model.backbone, torch.randn(2, 3, 32, 32)),
        (model.predictor, torch.randn(8, TINY['conv'], 4, 4), positions),
        (model.neck, torch.randn(8, 8, 8, 32),
         masked_patch_ids(positions, 8, 8))]
    breaks = 0
    for part, *inputs in parts:
        torch._dynamo.reset()
        breaks += torch._dynamo.explain(part)(*inputs).graph_break_count
    assert breaks == 0


def test_blocks_of_the_decoder_share_their_code():
    model = MODELS.build(dict(
        type='QBHeatDecoder', embed_dims=32, depth=5, num_heads=4))
    z, graphs = torch.randn(2, 4, 4, 32, requires_grad=True), []
    ids = torch.arange(12).expand(2, -1)
    expected = model(z, ids)
    torch._dynamo.reset()
    model.compile(backend=lambda graph, _: graphs.append(1) or graph.forward)
    torch.testing.assert_close(model(z, ids), expected)
    assert len(graphs) == 2  # the last predicts masked positions only
