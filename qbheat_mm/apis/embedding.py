# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Embed images in one call."""
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..evaluation.embedding import Embeddings, embed_batches, list_images
from ..trained import Encoder, load_encoder


def embed(encoder: Encoder | str,
          images: Any,
          pool: str = 'avg',
          size: int | Sequence[int] | None = None,
          batch_size: int = 64,
          workers: int = 0) -> Embeddings:
    """Embed images as vectors.

    Args:
        encoder (Encoder | str): Encoder, see :func:`load_encoder`, or a
            checkpoint.
        images (Any): A file, a folder (searched recursively), a uint8 RGB
            array (H, W, 3) or (N, H, W, 3), a tensor (3, H, W) or
            (N, 3, H, W), a PIL image, or a sequence of these. Unreadable
            files are skipped with a warning.
        pool (str): ``'avg'``, ``'token'``, ``'avg+token'`` or ``'max'``, see
            :meth:`Encoder.pool`. Defaults to 'avg'.
        size (int | Sequence[int], optional): Side, or height and width, that
            images are scaled and cropped to; 0 keeps each image's size,
            rounded to multiples of 32. Defaults to the training size, or 224.
        batch_size (int): Images per batch. Defaults to 64.
        workers (int): Processes that decode files. Defaults to 0.

    Returns:
        Embeddings: Embeddings in the order of the images.

    Raises:
        UserError: If there is no image, or an argument is invalid.

    Examples:
        >>> found = embed('encoder.safetensors', 'my_images', pool='avg+token')
        >>> np.savez('x.npz', embeddings=found.embeddings, files=found.files)
    """
    if not isinstance(encoder, Encoder):
        encoder = load_encoder(encoder)
    parts = list(embed_batches(
        encoder, list_images(images), pool, size, batch_size, workers))
    return Embeddings(
        np.concatenate([vectors for _, vectors in parts]),
        [name for names, _ in parts for name in names])
