# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Pre-train, load and use encoders, in one call each.

    from qbheat_mm.apis import embed, load_encoder, pretrain

    checkpoint = pretrain('my_images', 'runs/mine', epochs=100)
    encoder = load_encoder(checkpoint)
    print(encoder.normalization)          # RGB, mean ..., std ...
    found = embed(encoder, 'my_images')
    print(found.embeddings.shape, found.files[:3])
"""
from ..annotations import prepare_boxes, prepare_classes
from ..engine.pretraining import pretrain
from ..evaluation.embedding import (
    Embeddings,
    embed,
    embed_batches,
    list_images,
)
from ..trained import Encoder, build_encoder, load_encoder
from ..trained.heads import Heads, load_heads
from ..trained.published_encoder import published_encoder
from ..utils.model_index import find_config

__all__ = [
    'Embeddings', 'Encoder', 'Heads', 'build_encoder', 'embed',
    'embed_batches', 'find_config', 'list_images', 'load_encoder',
    'load_heads', 'prepare_boxes', 'prepare_classes', 'pretrain',
    'published_encoder'
]
