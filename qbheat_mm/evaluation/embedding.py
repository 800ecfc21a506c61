# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Embed files, folders and arrays of images in batches."""
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import mmcv
import numpy as np
import torch
from mmengine.logging import print_log
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader

from ..datasets import find_images, fit, fitting_size
from ..datasets.images import read_image
from ..datasets.pillow_image import orientation_of, rotate, to_rgb
from ..errors import ImageError, UserError
from ..trained import Encoder, load_encoder
from ..utils.modules import evaluating

#: Height and width for checkpoints without a training size.
SIZE = (224, 224)


@dataclass(frozen=True)
class Embeddings:
    """Embeddings of images.

    Attributes:
        embeddings (np.ndarray): Vectors, (N, D), float32.
        files (list[str]): File of each row, or an array's index, e.g.
            ``'[0]'``.
    """
    embeddings: np.ndarray
    files: list[str]

    def __len__(self) -> int:
        return len(self.files)


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
    files, vectors = [], []
    for names, batch in embed_batches(
            encoder, list_images(images), pool, size, batch_size, workers):
        files += names
        vectors.append(batch)
    return Embeddings(np.concatenate(vectors), files)


@torch.inference_mode()
def embed_batches(encoder: Encoder,
                  items: Sequence[tuple[str, Any]],
                  pool: str = 'avg',
                  size: int | Sequence[int] | None = None,
                  batch_size: int = 64,
                  workers: int = 0
                  ) -> Iterator[tuple[list[str], np.ndarray]]:
    """Embed images batch by batch, for more images than fit in memory.

    Args:
        encoder (Encoder): See :func:`load_encoder`.
        items (Sequence[tuple[str, Any]]): See :func:`list_images`.
        pool, size, batch_size, workers: See :func:`qbheat_mm.apis.embed`.

    Yields:
        tuple[list[str], np.ndarray]: Names and vectors (B, D), float32.

    Raises:
        UserError: If no image is readable, or ``size`` or ``pool`` is
            invalid.
    """
    loader = DataLoader(
        items, batch_size, num_workers=workers,
        collate_fn=partial(
            _load, size=height_and_width(size, encoder.size or SIZE)),
        generator=torch.Generator())  # keeps the global one unchanged
    device = next(encoder.backbone.parameters()).device
    count = 0
    for batch, problems in loader:
        for problem in problems:
            print_log(f'skipped: {problem}', logger='current',
                      level=logging.WARNING)
        count += len(batch)
        # Sizes may differ: group consecutive images of equal size.
        for _, rows in groupby(batch, key=lambda row: row[1].shape):
            names, images = zip(*rows)
            images = encoder.normalize(torch.stack(images).to(device))
            with evaluating(encoder):
                vectors = encoder.pool(encoder(images), pool)
            yield list(names), vectors.float().cpu().numpy()
    if not count:
        raise UserError(f'none of {len(items)} images could be read, see the '
                        f'warnings above (the first is {items[0][0]!r})')


def _load(items: Sequence[tuple[str, Any]], size: tuple[int, int] | None
          ) -> tuple[list[tuple[str, Tensor]], list[str]]:
    """Return names with RGB images (3, H, W), uint8, and error messages."""
    loaded, problems = [], []
    for name, image in items:
        try:
            if isinstance(image, str):
                image = mmcv.bgr2rgb(read_image(image))
        except ImageError as error:
            problems.append(str(error))
            continue
        image = fit(image, size or fitting_size(image.shape[:2], 32))
        loaded.append((name, torch.tensor(image).permute(2, 0, 1)))
    return loaded, problems


def list_images(images: Any) -> list[tuple[str, Any]]:
    """Name all images in whatever :func:`qbheat_mm.apis.embed` accepts.

    Returns:
        list[tuple[str, Any]]: Names with files or RGB arrays (H, W, 3).

    Raises:
        UserError: If there is no image, or something is not an image.
    """
    if isinstance(images, str | os.PathLike | np.ndarray | Tensor |
                  Image.Image):
        images = [images]
    items = []
    for image in images:
        if isinstance(image, str | os.PathLike):
            items += [(file, file) for file in find_images([str(image)])]
        else:
            items += [(f'[{len(items) + i}]', array)
                      for i, array in enumerate(_as_arrays(image))]
    if not items:
        raise UserError('no images: the list is empty')
    return items


def _as_arrays(image: Any) -> Sequence[np.ndarray]:
    """Convert an image or a batch to RGB arrays (H, W, 3), uint8."""
    if isinstance(image, Image.Image):
        name = getattr(image, 'filename', '') or 'of PIL'
        pixels = to_rgb(name, image)  # PIL reads files lazily
        return [rotate(pixels, orientation_of(image))]
    if isinstance(image, Tensor):
        image = image.detach().cpu()
        image = (image.movedim(-3, -1) if image.ndim > 2 else image).numpy()
    image = np.asarray(image)
    if (image.ndim not in (3, 4) or image.shape[-1] != 3
            or image.dtype != np.uint8 or not image.size):
        raise UserError(
            f'an array of shape {image.shape} and {image.dtype} is not an '
            'image: give uint8 RGB arrays (H, W, 3) or (N, H, W, 3), or '
            'tensors (3, H, W) or (N, 3, H, W)')
    return image if image.ndim == 4 else [image]


def height_and_width(size: int | Sequence[int] | None,
                     default: tuple[int, int] | None
                     ) -> tuple[int, int] | None:
    """Return the size of all images, None to keep each image's own."""
    if size is None:
        return default
    sides = tuple(size) if isinstance(size, list | tuple) else (size, )
    if sides == (0, ):
        return None
    if len(sides) not in (1, 2) or min(sides) < 1:
        raise UserError(f'size={size!r} must be a side, or height and width, '
                        'in pixels, or 0 to keep the size of each image')
    return sides[0], sides[-1]
