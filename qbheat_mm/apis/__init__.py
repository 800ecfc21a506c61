# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What was pre-trained here, outside of it, in one call each.

    from qbheat_mm.apis import embed, load_encoder

    encoder = load_encoder('epoch_100.pth')
    print(encoder.pixels)                 # RGB, mean ..., std ...
    found = embed(encoder, 'my_images')
    print(found.embeddings.shape, found.files[:3])
"""
from ..evaluation import Embeddings, Encoder, embed_batches, list_images
from .embedding import embed
from .encoder import build_encoder, load_encoder

__all__ = [
    'Embeddings', 'Encoder', 'build_encoder', 'embed', 'embed_batches',
    'list_images', 'load_encoder'
]
