# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Pre-train, load and use encoders, in one call each.

Example::

    from qbheat_mm.apis import embed, load_encoder, pretrain

    checkpoint = pretrain('my_images', 'runs/mine', epochs=100)
    encoder = load_encoder(checkpoint)
    print(encoder.normalization)          # RGB, mean ..., std ...
    found = embed(encoder, 'my_images')
    print(found.embeddings.shape, found.files[:3])
"""
import importlib
from itertools import chain
from typing import Any

# Imported on use: heads need mmdet, comparisons matplotlib and scikit-learn.
_MODULES = {
    'apis.loading': ('build_encoder', 'load_encoder', 'load_heads'),
    'annotations': ('prepare_boxes', 'prepare_classes'),
    'config.model_index': ('find_config', ),
    'engine.pretraining': ('pretrain', ),
    'evaluation.compare': ('compare', ),
    'evaluation.embedding': ('Embeddings', 'embed', 'embed_batches',
                             'list_images'),
    'trained': ('Encoder', ),
    'trained.heads': ('Heads', ),
    'trained.published_encoder': ('published_encoder', )}
__all__ = sorted(chain.from_iterable(_MODULES.values()))


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f'qbheat_mm.{module}'),
                           name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def __dir__() -> list[str]:
    return __all__
