"""Decoders on top of the encoder."""
from .qbheat_decoder import QBHeatDecoder

__all__ = ['QBHeatDecoder']
