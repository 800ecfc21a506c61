# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Embeddings of images: files, folders, arrays, any number of them."""
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import mmcv
import numpy as np
import torch
from mmengine.logging import print_log
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ..datasets import find_images, fit, fitting_size
from ..datasets.images import ImageError, read_image
from ..errors import UserError
from ..utils.modules import evaluating
from .encoder import Encoder

#: Height and width if the checkpoint does not say.
SIZE = (224, 224)


@dataclass(frozen=True)
class Embeddings:
    """Vectors of images.

    Attributes:
        embeddings (np.ndarray): (N, D), float32.
        files (list[str]): The file of each row, or the index of an array, as
            ``'[0]'``.
    """
    embeddings: np.ndarray
    files: list[str]

    def __len__(self) -> int:
        return len(self.files)


@torch.inference_mode()
def embed_batches(encoder: Encoder,
                  items: Sequence[tuple[str, Any]],
                  pool: str = 'avg',
                  size: int | Sequence[int] | None = None,
                  batch_size: int = 64,
                  workers: int = 0
                  ) -> Iterator[tuple[list[str], np.ndarray]]:
    """Embed images batch by batch, for more images than memory holds.

    Args:
        encoder (Encoder): See :func:`load_encoder`.
        items (Sequence[tuple[str, Any]]): Of :func:`list_images`.
        pool, size, batch_size, workers: See :func:`qbheat_mm.apis.embed`.

    Yields:
        tuple[list[str], np.ndarray]: Names, and vectors (B, D), float32.

    Raises:
        UserError: If no image is readable, or ``size`` or ``pool`` is
            impossible.
    """
    loader = DataLoader(
        _Images(items, _as_size(size, encoder)), batch_size,
        num_workers=workers, collate_fn=list,
        generator=torch.Generator())  # leaves the global one alone
    device = next(encoder.backbone.parameters()).device
    found = 0
    for batch in loader:
        for _, _, problem in batch:
            if problem is not None:
                print_log(f'skipped: {problem}', logger='current',
                          level=logging.WARNING)
        batch = [row for row in batch if row[2] is None]
        found += len(batch)
        # Images of their own sizes: consecutive ones of equal size at once.
        for _, rows in groupby(batch, key=lambda row: row[1].shape):
            names, images, _ = zip(*rows)
            images = encoder.normalize(torch.stack(images).to(device))
            with evaluating(encoder):
                vectors = encoder.pool(encoder(images), pool)
            yield list(names), vectors.float().cpu().numpy()
    if not found:
        raise UserError(f'none of {len(items)} images could be read, see the '
                        f'warnings above (the first is {items[0][0]!r})')


class _Images(Dataset):
    """Named images, decoded and fitted one by one."""

    def __init__(self, items: Sequence[tuple[str, Any]],
                 size: tuple[int, int] | None) -> None:
        self.items = items
        self.size = size

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple[str, Tensor | None, str | None]:
        """Name, RGB image (3, H, W), uint8, and what is wrong with it."""
        name, image = self.items[index]
        if isinstance(image, str):
            try:
                image = mmcv.bgr2rgb(read_image(image))
            except ImageError as error:
                return name, None, str(error)
        image = fit(image, self.size or fitting_size(image, 32))
        return name, torch.tensor(image).permute(2, 0, 1), None


def list_images(images: Any) -> list[tuple[str, Any]]:
    """Name each image of whatever :func:`qbheat_mm.apis.embed` takes.

    Returns:
        list[tuple[str, Any]]: Names, and files or RGB arrays (H, W, 3).

    Raises:
        UserError: If there is no image, or something else.
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
        raise UserError('there is no image to embed: the list is empty')
    return items


def _as_arrays(image: Any) -> Sequence[np.ndarray]:
    """RGB arrays (H, W, 3), uint8, of one image or a batch of them."""
    if isinstance(image, Image.Image):
        return [_of_pil(image)]
    if isinstance(image, Tensor):
        image = image.detach().cpu()
        image = (image.movedim(-3, -1) if image.ndim > 2 else image).numpy()
    image = np.asarray(image)
    if (image.ndim not in (3, 4) or image.shape[-1] != 3
            or image.dtype != np.uint8 or not image.size):
        raise UserError(
            f'an array of shape {image.shape} and {image.dtype} is no image: '
            'give RGB, uint8, arrays (H, W, 3) or (N, H, W, 3), or tensors '
            '(3, H, W) or (N, 3, H, W)')
    return image if image.ndim == 4 else [image]


def _of_pil(image: Image.Image) -> np.ndarray:
    """An RGB array (H, W, 3), uint8, upright by its EXIF orientation."""
    try:
        image = ImageOps.exif_transpose(image)
    except OSError as error:  # PIL reads files late
        name = getattr(image, 'filename', '') or 'a PIL image'
        raise UserError(f"'{name}' cannot be decoded: {error}") from error
    if image.mode.startswith('I;16'):  # as when files are decoded
        image = Image.fromarray((np.array(image) >> 8).astype(np.uint8))
    if image.mode in ('I', 'F'):
        raise UserError(f'a PIL image of mode {image.mode!r} has no known '
                        'range: give an RGB array, uint8')
    return np.array(image.convert('RGB'))


def _as_size(size: int | Sequence[int] | None,
             encoder: Encoder) -> tuple[int, int] | None:
    """Height and width; None for each image's own."""
    if size is None:
        return encoder.size or SIZE
    sides = tuple(size) if isinstance(size, list | tuple) else (size, )
    if sides == (0, ):
        return None
    if len(sides) not in (1, 2) or min(sides) < 1:
        raise UserError(f'size={size!r}: give one side, or height and width, '
                        'in pixels, or 0 for the own size of each image')
    return sides[0], sides[-1]
