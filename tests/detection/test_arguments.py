# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Settings of MF-Dec that cannot be are refused where it is built."""
import pytest

from qbheat_mm.detection.layers import MFDecoder
from qbheat_mm.errors import UserError

SETTINGS = dict(in_channels=(6, 10), depths=(1, 1, 1), embed_dims=16,
                num_heads=4, mobile_mlp_dims=8, former_mlp_dims=8)
COUNTS = (0, -1, 1.5, '8', None, True)
WRONG = dict(
    in_channels=(6, (6, ), (6, 10, 12), (6, 0), ('6', 10), None),
    depths=(1, '211', (1, 1), (0, 0, 0), (1, -1, 1), (True, 1, 1), None),
    expansions=((2, ), (2, 2, 2), (0, 2), (2, -1), (1.5, 2), 2, 'ab', ()),
    embed_dims=(*COUNTS, 6, 18), num_heads=(*COUNTS, 3),
    mobile_mlp_dims=COUNTS, former_mlp_dims=COUNTS,
    dropout=(-.1, 1, 2, '0', None))


@pytest.mark.parametrize('name', WRONG)
def test_impossible_settings_of_the_decoder(name):
    MFDecoder(**SETTINGS)
    for value in WRONG[name]:
        with pytest.raises(UserError) as error:
            MFDecoder(**{**SETTINGS, name: value})
        assert name in str(error.value) and '\n' not in str(error.value)


@pytest.mark.parametrize('num_queries', COUNTS)
def test_impossible_numbers_of_queries(build_head, num_queries):
    with pytest.raises(UserError, match='num_queries'):
        build_head(num_queries=num_queries)


def test_queries_and_head_are_of_one_width(build_head, head_config):
    head = dict(head_config['bbox_head'], embed_dims=64)
    with pytest.raises(UserError, match='bbox_head.embed_dims=64 must be'):
        build_head(bbox_head=head)
