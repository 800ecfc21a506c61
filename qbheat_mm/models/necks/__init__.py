"""Decoders on top of the encoder."""
from .probing import PoolWithToken, TransformerProbe
from .qbheat_decoder import QBHeatDecoder

__all__ = ['PoolWithToken', 'QBHeatDecoder', 'TransformerProbe']
