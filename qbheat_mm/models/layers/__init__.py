# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Building blocks of the models, independent of configs and registries."""
from .mobile import (
    DownsampleMobile,
    DynamicReLU,
    DynamicReLUCoefficients,
    LiteBottleneck,
    Mobile,
)
from .mobile_former_block import (
    Former,
    FormerToMobile,
    MobileFormerBlock,
    MobileToFormer,
)
from .transformer import Block

__all__ = [
    'Block', 'DownsampleMobile', 'DynamicReLU', 'DynamicReLUCoefficients',
    'Former', 'FormerToMobile', 'LiteBottleneck', 'Mobile',
    'MobileFormerBlock', 'MobileToFormer'
]
