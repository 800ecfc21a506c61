"""Decoders on top of the encoder."""
from .mobile_former_neck import MobileFormerV1Neck
from .probing import PoolWithToken, TransformerProbe
from .qbheat_decoder import QBHeatDecoder

__all__ = [
    'MobileFormerV1Neck', 'PoolWithToken', 'QBHeatDecoder', 'TransformerProbe'
]
