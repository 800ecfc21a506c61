"""Heads: where a loss is computed."""
from .embedding_head import EmbeddingHead
from .qbheat_head import QBHeatPretrainHead

__all__ = ['EmbeddingHead', 'QBHeatPretrainHead']
