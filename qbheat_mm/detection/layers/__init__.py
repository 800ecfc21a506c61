"""Layers of MF-Dec; they know no configs and no registries."""
from .mf_block import Attention, BottleneckMobile, MFBlock, TransformerMobile
from .mf_decoder import MFDecoder
from .scale import Scale

__all__ = [
    'Attention', 'BottleneckMobile', 'MFBlock', 'MFDecoder', 'Scale',
    'TransformerMobile'
]
