# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Embeddings of images: files, folders, arrays, any number of them."""
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
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

from ..datasets.image_file import ImageProblem, decode, read_file
from ..errors import UserError
from ..utils.images import find_images, fit, fitting_size
from ..utils.modes import evaluating
from .encoder import Encoder

#: Height and width where the checkpoint does not say.
SIZE = (224, 224)


@dataclass(frozen=True)
class Embeddings:
    """Vectors of images.

    Attributes:
        embeddings (np.ndarray): (N, D), float32.
        files (list[str]): What each row is of: a file, or, for arrays,
            their number, as ``'[0]'``.
    """
    embeddings: np.ndarray
    files: list[str]

    def __len__(self) -> int:
        return len(self.files)


def embed_batches(encoder: Encoder,
                  items: Sequence[tuple[str, Any]],
                  pool: str = 'avg',
                  size: int | Sequence[int] | None = None,
                  batch_size: int = 64,
                  workers: int = 0
                  ) -> Iterator[tuple[list[str], np.ndarray]]:
    """Embed images by batches, for more images than memory holds.

    Args:
        encoder (Encoder): See :func:`load_encoder`.
        items (Sequence[tuple[str, Any]]): Of :func:`list_images`.
        pool, size, batch_size, workers: As in :func:`embed`.

    Yields:
        tuple[list[str], np.ndarray]: Names, and vectors (B, D), float32.

    Raises:
        UserError: If nothing can be decoded, or an argument is impossible.
    """
    for name, value, least in (('batch_size', batch_size, 1),
                               ('workers', workers, 0)):
        if isinstance(value, bool) or not isinstance(
                value, int) or value < least:
            raise UserError(f'{name}={value!r} must be a whole number from '
                            f'{least} on')
    loader = DataLoader(
        _Pictures(items, _as_size(size, encoder)), batch_size,
        num_workers=workers, collate_fn=list,
        generator=torch.Generator())  # no random number of the caller's
    found = 0
    for batch in loader:
        for name, _, problem in batch:
            if problem is not None:
                print_log(f'skipped: image {name!r} {problem}',
                          logger='current', level=logging.WARNING)
        batch = [row for row in batch if row[2] is None]
        found += len(batch)
        # Images of their own sizes go through one run of equal sizes at once.
        for _, rows in groupby(batch, key=lambda row: row[1].shape):
            rows = list(rows)
            yield ([row[0] for row in rows],
                   _encode(encoder, torch.stack([row[1] for row in rows]),
                           pool))
    if not found:
        raise UserError(f'none of {len(items)} images could be decoded, see '
                        f'the warnings above (the first is {items[0][0]!r})')


@torch.inference_mode()
def _encode(encoder: Encoder, images: Tensor, pool: str) -> np.ndarray:
    images = encoder.normalize(images.to(encoder.mean.device))
    # else batch norm would mix the images of a batch and learn from them
    with evaluating(encoder):
        return encoder.pool(encoder(images), pool).float().cpu().numpy()


class _Pictures(Dataset):
    """Named images, decoded and fitted one by one."""

    def __init__(self, items: Sequence[tuple[str, Any]],
                 size: tuple[int, int] | None) -> None:
        self.items = items
        self.size = size

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple[str, Tensor | None, str | None]:
        """Name, RGB picture (3, H, W), uint8, and what is wrong with it."""
        name, image = self.items[index]
        if isinstance(image, str):
            try:
                image = mmcv.bgr2rgb(decode(read_file(image)))
            except ImageProblem as problem:
                return name, None, str(problem)
        image = fit(image, self.size or fitting_size(image, 32))
        return name, torch.tensor(image).permute(2, 0, 1), None


def list_images(images: Any) -> list[tuple[str, Any]]:
    """Name each image of whatever :func:`embed` takes.

    Returns:
        list[tuple[str, Any]]: Names, and files or RGB arrays (H, W, 3).

    Raises:
        UserError: If there is no image, or something else.
    """
    single = isinstance(images, str | os.PathLike | np.ndarray | Tensor |
                        Image.Image)
    if not single and not isinstance(images, Iterable):
        images = [images]  # which is no image
    items = []
    for image in [images] if single else images:
        if isinstance(image, str | os.PathLike):
            items += [(file, file) for file in find_images([str(image)])]
        else:
            items += [(f'[{len(items) + i}]', array)
                      for i, array in enumerate(_as_arrays(image))]
    if not items:
        raise UserError('there is no image to embed: the list is empty')
    return items


def _as_arrays(image: Any) -> Sequence[np.ndarray]:
    """RGB pictures (H, W, 3), uint8, of one picture or a batch of them."""
    if isinstance(image, Image.Image):
        return [_of_pil(image)]
    if isinstance(image, Tensor):
        image = image.detach().cpu()
        image = (image.movedim(-3, -1) if image.ndim in (3, 4)
                 else image).numpy()
    if not isinstance(image, np.ndarray):
        raise UserError(f'{type(image).__name__} is no image: give files, '
                        'folders, arrays, tensors or pictures of PIL')
    if (image.ndim not in (3, 4) or image.shape[-1] != 3
            or image.dtype != np.uint8 or 0 in image.shape):
        raise UserError(
            f'an array of shape {image.shape} and {image.dtype} is no '
            'picture: arrays are RGB, uint8, (H, W, 3) or (N, H, W, 3), and '
            'tensors (3, H, W) or (N, 3, H, W); give what is normalized '
            'already to the encoder itself')
    return image if image.ndim == 4 else [image]


def _of_pil(image: Image.Image) -> np.ndarray:
    """An RGB picture (H, W, 3), uint8, upright by its EXIF orientation.

    Of 16 bits the upper eight are taken, as when files are decoded; PIL would
    make white of nearly all.

    Raises:
        UserError: If its values have no range that is known, or its file is
            cut or damaged.
    """
    try:
        image = ImageOps.exif_transpose(image)
    except OSError as error:  # files are read when pixels are wanted
        name = getattr(image, 'filename', '') or 'a picture of PIL'
        raise UserError(f"'{name}' cannot be decoded ({error}): remove or "
                        'replace it') from error
    if image.mode.startswith('I;16'):
        image = Image.fromarray((np.array(image) >> 8).astype(np.uint8))
    if image.mode in ('I', 'F'):
        raise UserError(f'a picture of PIL of mode {image.mode!r} has '
                        'no known range: give an array, RGB, uint8')
    return np.array(image.convert('RGB'))


def _as_size(size: int | Sequence[int] | None,
             encoder: Encoder) -> tuple[int, int] | None:
    """Height and width; None for each image's own."""
    if size is None:
        return encoder.size or SIZE
    sides = list(size) if isinstance(size, list | tuple) else [size]
    if sides == [0]:
        return None
    if len(sides) not in (1, 2) or any(
            isinstance(side, bool) or not isinstance(side, int) or side < 1
            for side in sides):
        raise UserError(f'size={size!r}: give one side, or height and width, '
                        'in pixels, or 0 for the own size of each image')
    return sides[0], sides[-1]
