# Copyright (c) QB-Heat MM authors. All rights reserved.
import copy

import pytest
import torch
from mmengine.registry import MODELS

from qbheat_mm.analysis.attention import (
    attention_maps,
    default_blocks,
    numbered_blocks,
    token_similarity,
)
from qbheat_mm.errors import UserError
from qbheat_mm.models.backbones import MobileFormer


@pytest.fixture
def backbone(build):
    return build().backbone


def test_maps_sum_to_1_over_the_right_axis(backbone, images):
    found = attention_maps(backbone, images)
    assert [block.block for block in found] == [2, 3]
    # The first block has stride 2: its input has 16 x 24 positions.
    sizes = [((16, 24), (8, 12)), ((8, 12), (8, 12))]
    for block, (before, after) in zip(found, sizes):
        m2f = block.maps['mobile_to_former']
        f2m = block.maps['former_to_mobile']
        assert m2f.shape == (2, 2, 3, *before)
        assert f2m.shape == (2, 2, 3, *after)
        assert torch.allclose(m2f.sum(dim=(3, 4)), torch.ones(2, 2, 3),
                              atol=1e-5)
        assert torch.allclose(f2m.sum(dim=2), torch.ones(2, 2, *after),
                              atol=1e-5)


def test_maps_are_those_of_the_formula(backbone, images):
    """Softmax of token queries and raw pixels, head by head (V1)."""
    inputs = {}
    block = backbone.stages[1][1]
    block.mobile_to_former.register_forward_pre_hook(
        lambda module, args: inputs.update(m2f=args))
    block.former_to_mobile.register_forward_pre_hook(
        lambda module, args: inputs.update(f2m=args))
    maps = attention_maps(backbone, images)[1].maps
    with torch.no_grad():
        for name, key in (('mobile_to_former', 'm2f'),
                          ('former_to_mobile', 'f2m')):
            x, tokens = inputs[key]
            bridge = getattr(block, name)
            linear = getattr(bridge, 'query_gate', None) or bridge.key_value
            ours = linear(tokens)[..., :12]
            for head, channels in enumerate((slice(0, 6), slice(6, 12))):
                scores = torch.einsum('btc,bchw->bthw', ours[..., channels],
                                      x[:, channels]) / 6**0.5
                if key == 'm2f':
                    expected = scores.flatten(2).softmax(-1).view_as(scores)
                else:
                    expected = scores.softmax(1)
                assert torch.allclose(maps[name][:, head], expected,
                                      atol=1e-5)


def test_looking_leaves_no_trace(backbone, images):
    backbone.train()
    backbone.stages[0].eval()
    before = copy.deepcopy(backbone.state_dict())
    modes = {name: m.training for name, m in backbone.named_modules()}
    attention_maps(backbone, images)
    assert {name: m.training
            for name, m in backbone.named_modules()} == modes
    for name, tensor in backbone.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    for block in numbered_blocks(backbone).values():
        for bridge in (block.mobile_to_former, block.former_to_mobile):
            assert 'attention' not in vars(bridge)
            assert not bridge._forward_pre_hooks


def test_looking_leaves_no_trace_after_an_error(backbone):
    with pytest.raises(RuntimeError):
        attention_maps(backbone, torch.zeros(1, 5, 32, 32))
    for block in numbered_blocks(backbone).values():
        assert 'attention' not in vars(block.mobile_to_former)


def test_the_output_is_the_same_while_looking(backbone, images):
    with torch.no_grad():
        expected = backbone(images)[-1]
    seen = []
    backbone.register_forward_hook(lambda m, args, out: seen.append(out[-1]))
    attention_maps(backbone, images)
    assert torch.equal(seen[0], expected)


def test_blocks_that_do_not_run_are_left_out(build, images):
    backbone = build().backbone
    stopped = MobileFormer(backbone.arch, out_indices=(0, )).eval()
    assert attention_maps(stopped, images) == []


def test_the_paper_shows_the_blocks_3_6_10_12():
    assert default_blocks(MobileFormer('mf-285m')) == [3, 6, 10, 12]


def test_a_backbone_without_bridges_is_refused(images):
    resnet = MODELS.build(dict(type='mmpretrain.ResNet', depth=18))
    with pytest.raises(UserError, match='ResNet has no bridge'):
        attention_maps(resnet, images)


def test_similarity_of_tokens():
    same = torch.rand(1, 1, 1, 4, 4).expand(1, 2, 3, 4, 4)
    assert torch.allclose(token_similarity(same), torch.ones(1, 2))
    apart = torch.zeros(1, 1, 3, 1, 3)
    apart[0, 0, range(3), 0, range(3)] = 0.5
    assert token_similarity(apart).item() == 0
