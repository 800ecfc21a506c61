"""Decoders on top of the encoder."""
from .probing import MobileFormerV1Neck, PoolWithToken, TransformerProbe
from .qbheat_decoder import QBHeatDecoder

__all__ = [
    'MobileFormerV1Neck', 'PoolWithToken', 'QBHeatDecoder', 'TransformerProbe'
]
