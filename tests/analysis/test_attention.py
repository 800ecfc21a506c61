# Copyright (c) QB-Heat MM authors. All rights reserved.
import pytest
import torch

from qbheat_mm.analysis.attention import (
    attention_maps,
    default_blocks,
)
from qbheat_mm.models.backbones import MobileFormer


@pytest.fixture
def backbone(build):
    return build().backbone


def test_maps_are_those_of_the_formula(backbone, images):
    """Softmax of token queries and raw pixels, head by head (V1)."""
    inputs = {}
    block = backbone.stages[1][1]
    block.mobile_to_former.register_forward_pre_hook(
        lambda module, args: inputs.update(m2f=args))
    block.former_to_mobile.register_forward_pre_hook(
        lambda module, args: inputs.update(f2m=args))
    found = attention_maps(backbone, images)
    assert list(found) == [2, 3]  # of stride 2: a map before and one after
    assert found[2]['mobile_to_former'].shape == (2, 2, 3, 16, 24)
    assert found[2]['former_to_mobile'].shape == (2, 2, 3, 8, 12)
    maps = found[3]
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


def test_the_paper_shows_the_blocks_3_6_10_12():
    assert default_blocks(MobileFormer('mf-285m')) == [3, 6, 10, 12]
