# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Layers of MF-Dec, independent of configs and registries."""
from .mf_block import Attention, BottleneckMobile, MFBlock, TransformerMobile
from .mf_decoder import MFDecoder
from .scale import Scale

__all__ = [
    'Attention', 'BottleneckMobile', 'MFBlock', 'MFDecoder', 'Scale',
    'TransformerMobile'
]
