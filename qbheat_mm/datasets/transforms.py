# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Load image files, crop them while decoding, and pack them quickly."""
import logging
import math
from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
import torch
from mmcv.transforms import LoadImageFromFile, RandomFlip
from mmengine.logging import print_log
from mmengine.registry import TRANSFORMS as MMENGINE_TRANSFORMS
from mmpretrain.datasets.transforms import (
    PackInputs,
    RandomErasing,
    RandomResizedCrop,
)
from PIL import Image
from torch.nn import functional as F

from ..errors import ImageError, UserError
from ..registry import TRANSFORMS
from .images import REDUCTIONS, DamagedImageError, ImageFile

_INTERPOLATIONS = ('bilinear', 'bicubic')
# OpenCV's code, and where the borders of the image come to lie.
_FLIPS = dict(horizontal=(1, 1., 0., 0., 1.), vertical=(0, 0., 1., 1., 0.),
              diagonal=(-1, 1., 1., 0., 0.))
#: The ``crop_box`` of a whole image.
WHOLE = (0., 0., 1., 1.)


def update_crop_box(results: dict, left: float, top: float, right: float,
                    bottom: float) -> None:
    """Record which part of the current image the next one shows.

    ``crop_box`` has the left, top, right and bottom borders of the image as
    shares of the whole one. If it is mirrored, left is greater than right, or
    top than bottom. Resizing leaves it as it is.

    Args:
        results (dict): Results of a pipeline.
        left, top, right, bottom (float): Borders of the next image as shares
            of the current one.
    """
    x1, y1, x2, y2 = results.get('crop_box', WHOLE)
    width, height = x2 - x1, y2 - y1
    results['crop_box'] = (x1 + left * width, y1 + top * height,
                           x1 + right * width, y1 + bottom * height)


@TRANSFORMS.register_module(name='LoadImageFromFile')
@MMENGINE_TRANSFORMS.register_module()
class LoadNamedImageFromFile(LoadImageFromFile):
    """Load a color image; errors name unreadable and damaged files.

    Configs use ``dict(type='LoadImageFromFile', _scope_='qbheat_mm')``, the
    name that mmdet's and mmpretrain's inferencers look for.

    Args:
        to_float32 (bool): Whether to convert to float32. Defaults to False.
        color_type (str): ``'color'`` applies the EXIF orientation,
            ``'color_ignore_orientation'`` does not. Defaults to 'color'.
        ignore_empty (bool | str): True skips unreadable files with a warning;
            in training other images replace them. ``'damage'`` decodes
            damaged JPEG files as far as possible, with a warning. Defaults
            to False.
        backend_args (dict, optional): Arguments of mmengine's file backend.
            Defaults to None.
    """

    def __init__(self,
                 to_float32: bool = False,
                 color_type: str = 'color',
                 ignore_empty: bool | str = False,
                 backend_args: dict | None = None) -> None:
        if color_type not in ('color', 'color_ignore_orientation'):
            raise UserError(f'color_type={color_type!r} must be '
                            "'color' or 'color_ignore_orientation'")
        if ignore_empty not in (False, True, 'damage'):
            raise UserError(f'ignore_empty={ignore_empty!r} must be False, '
                            "True or 'damage'")
        super().__init__(to_float32, color_type, backend_args=backend_args)
        self.ignore_empty = ignore_empty
        self._warned = set()

    def transform(self, results: dict) -> dict | None:
        """Load the image.

        Args:
            results (dict): With ``img_path``, and ``height`` and ``width`` if
                annotations give them; or with ``img`` from an inferencer.

        Returns:
            dict | None: With ``img``, (H, W, 3), BGR, ``img_shape``,
            ``ori_shape`` and, if it comes from a file, ``crop_box``. None if
            the file is skipped.

        Raises:
            ImageError: If the file is unreadable, or the annotations give
                another size.
        """
        image = results.get('img')
        try:
            if image is None:
                image = self.decode(self.open(results))
                results['crop_box'] = WHOLE
        except ImageError as error:
            return self.skip(error)
        results['img'] = image.astype(np.float32) if self.to_float32 else image
        results['img_shape'] = results['ori_shape'] = image.shape[:2]
        return results

    def open(self, results: dict) -> ImageFile:
        """Read a file and check its size."""
        file = ImageFile(results['img_path'], self.backend_args,
                         use_exif=self.color_type == 'color')
        if 'height' in results:
            file.require_size(results['height'], results['width'])
        return file

    def decode(self, file: ImageFile, reduction: int = 1) -> np.ndarray:
        """Decode a file, (H, W, 3), BGR, uint8."""
        try:
            return file.decode(reduction)
        except DamagedImageError as error:
            if self.ignore_empty != 'damage':
                raise
            self._warn(str(error))
            return file.decode(reduction, strict=False)

    def skip(self, error: ImageError) -> None:
        """Log the error, or raise it unless files may be skipped."""
        if self.ignore_empty is not True:
            raise error
        self._warn(f'skipped: {error}')

    def _warn(self, message: str) -> None:
        """Log once, not in every epoch."""
        if message not in self._warned:
            self._warned.add(message)
            print_log(message, logger='current', level=logging.WARNING)


@TRANSFORMS.register_module(name='RandomResizedCrop')
class TorchvisionRandomResizedCrop(RandomResizedCrop):
    """mmpretrain's ``RandomResizedCrop`` with torchvision's faster resizing.

    The same seed gives the same boxes, and pixels within 0.4 gray levels of
    ``backend='pillow'`` on average. Configs use
    ``dict(type='RandomResizedCrop', _scope_='qbheat_mm')``.

    Args:
        scale (int | Sequence[int]): Side, or height and width, of the result.
        crop_ratio_range (tuple[float, float]): Area of the box relative to
            the image. Defaults to (0.08, 1.0).
        aspect_ratio_range (tuple[float, float]): Width by height of the box.
            Defaults to (3 / 4, 4 / 3).
        max_attempts (int): Boxes drawn before falling back to the center.
            Defaults to 10.
        interpolation (str): ``'bilinear'`` or ``'bicubic'``, antialiased, or
            ``'random'``, which draws one of them for each image as timm
            does. Defaults to 'bicubic'.
    """

    def __init__(self,
                 scale: int | Sequence[int],
                 crop_ratio_range: tuple[float, float] = (0.08, 1.0),
                 aspect_ratio_range: tuple[float, float] = (3 / 4, 4 / 3),
                 max_attempts: int = 10,
                 interpolation: str = 'bicubic') -> None:
        super().__init__(scale, crop_ratio_range, aspect_ratio_range,
                         max_attempts)
        self.interpolation = interpolation

    def transform(self, results: dict) -> dict | None:
        """Crop and resize ``img``, (H, W, 3); see :func:`update_crop_box`."""
        image = results['img']
        box = self.rand_crop_params(image)
        self._record(results, box, image.shape)
        image = self._resize(image, *box)
        results['img'], results['img_shape'] = image, image.shape
        return results

    @staticmethod
    def _record(results: dict, box: tuple[int, int, int, int],
                shape: tuple[int, ...]) -> None:
        """Record a box (top, left, height, width) of an image."""
        top, left, height, width = box
        update_crop_box(
            results, left / shape[1], top / shape[0],
            (left + width) / shape[1], (top + height) / shape[0])

    def _draw_interpolation(self) -> str:
        if self.interpolation == 'random':
            return _INTERPOLATIONS[np.random.randint(2)]
        return self.interpolation

    def _resize(self, image: np.ndarray, top: int, left: int, height: int,
                width: int) -> np.ndarray:
        """Resize a box of an image."""
        # The kernel is fast only on contiguous memory.
        crop = torch.from_numpy(np.ascontiguousarray(
            image[None, top:top + height, left:left + width]))
        resized = F.interpolate(
            crop.permute(0, 3, 1, 2), tuple(self.scale),
            mode=self._draw_interpolation(), antialias=True)
        return resized[0].permute(1, 2, 0).numpy()


class _Decoded(NamedTuple):
    """An image decoded at 1 / ``reduction`` of its ``shape``."""
    shape: tuple[int, int]
    reduction: int
    pixels: np.ndarray


@MMENGINE_TRANSFORMS.register_module()
class LoadRandomResizedCrop(TorchvisionRandomResizedCrop):
    """Load an image file and crop it, decoding no more than needed.

    ``LoadImageFromFile`` and ``RandomResizedCrop`` in one: the box is drawn
    first, and JPEG files with pixels to spare are decoded at 1/2, 1/4 or 1/8
    of their size. On average over photographs, results are within 1 gray
    level of those from the whole image.

    Args:
        *args: See ``RandomResizedCrop``.
        oversampling (float): Minimum size of the decoded box relative to
            ``scale``. Smaller values are faster and less exact. Defaults
            to 2.
        cache (str, optional): ``'ram'`` decodes each image of a data set
            once and keeps its pixels in memory, shared by all workers and
            processes of a machine (Linux only), until 2 GiB are left. They
            are reduced as the smallest possible box allows, so that results
            are at least as close to the whole image as without; boxes stay
            the same. Defaults to None.
        ignore_empty (bool | str): See :class:`LoadNamedImageFromFile`.
            Defaults to False.
        backend_args (dict, optional): Arguments of mmengine's file backend.
            Defaults to None.
        **kwargs: See ``RandomResizedCrop``.
    """

    def __init__(self,
                 *args,
                 oversampling: float = 2.,
                 cache: str | None = None,
                 ignore_empty: bool | str = False,
                 backend_args: dict | None = None,
                 **kwargs) -> None:
        if cache not in (None, 'ram'):
            raise UserError(f"cache={cache!r} must be None or 'ram'")
        super().__init__(*args, **kwargs)
        self.oversampling = oversampling
        self.load = LoadNamedImageFromFile(
            ignore_empty=ignore_empty, backend_args=backend_args)
        self.decodes_once = cache is not None
        self.cache = None
        if self.decodes_once:
            from .image_cache import open_cache
            self.cache = open_cache()  # before there are workers

    def transform(self, results: dict) -> dict | None:
        """Load, crop and resize.

        Args:
            results (dict): With ``img_path``, and ``sample_idx`` in data
                sets.

        Returns:
            dict | None: With ``img``, (h, w, 3), BGR, uint8, ``img_shape``,
            ``ori_shape`` and ``crop_box``. None if the file is skipped.

        Raises:
            ImageError: If the file is unreadable.
        """
        index = results.get('sample_idx')
        try:
            image = self._cached(index)
            if image is not None:
                box = self.rand_crop_params(image)
            else:
                file = self.load.open(results)
                box = self.rand_crop_params(file)
                image = self._decode(file, box)
                self._keep(index, image)
        except ImageError as error:
            return self.load.skip(error)
        resized = (self._resize(image.pixels, *box) if image.reduction == 1
                   else self._resize_reduced(image, box))
        results['img'], results['img_shape'] = resized, resized.shape
        results['ori_shape'] = image.shape
        results['crop_box'] = WHOLE
        self._record(results, box, image.shape)
        return results

    def _cached(self, index: int | None) -> _Decoded | None:
        """Return an image of the cache, None if there is none."""
        if self.cache is None or index is None:
            return None
        kept = self.cache.get(index)
        return None if kept is None else _Decoded(*kept)

    def _keep(self, index: int | None, image: _Decoded) -> None:
        """Put an image into the cache, if there is one."""
        if self.cache is not None and index is not None:
            self.cache.put(index, *image)

    def _decode(self, file: ImageFile,
                box: tuple[int, int, int, int]) -> _Decoded:
        """Decode a file as small as a box allows; any box if it is kept."""
        if not file.reducible and not self.decodes_once:
            return _Decoded(file.shape, 1, self.load.decode(file))
        sides = box[2:]
        if self.decodes_once:
            sides = self._smallest_sides(file.shape)
        reduction = self._reduction(*sides)
        if file.reducible:
            pixels = self.load.decode(file, reduction)
        else:
            whole = Image.fromarray(self.load.decode(file))
            pixels = np.array(whole.reduce(reduction))
        return _Decoded(file.shape, reduction, pixels)

    def _smallest_sides(self, shape: tuple[int, int]) -> tuple[float, float]:
        """Height and width of the flattest and of the narrowest box."""
        height, width = shape
        narrow, wide = self.aspect_ratio_range
        area = self.crop_ratio_range[0] * height * width
        return (min(height, width, math.sqrt(area / wide)),
                min(height, width, math.sqrt(area * narrow)))

    def _reduction(self, height: float, width: float) -> int:
        """The largest reduction that leaves a box enough pixels."""
        spare = min(height / (self.oversampling * self.scale[0]),
                    width / (self.oversampling * self.scale[1]))
        return max((r for r in REDUCTIONS if r <= spare), default=1)

    def _resize_reduced(self, image: _Decoded,
                        box: tuple[int, int, int, int]) -> np.ndarray:
        """Resize a box with fractional borders, using Pillow."""
        top, left, height, width = (side / image.reduction for side in box)
        resized = Image.fromarray(image.pixels).resize(
            self.scale[::-1],
            Image.Resampling[self._draw_interpolation().upper()],
            box=(left, top, left + width, top + height))
        # Other transforms write to it, and Pillow's memory is read-only.
        return np.array(resized)


@TRANSFORMS.register_module(name='RandomFlip')
class FastRandomFlip(RandomFlip):
    """mmcv's ``RandomFlip``, faster, and recorded in ``crop_box``.

    Configs use ``dict(type='RandomFlip', _scope_='qbheat_mm')``.
    """

    def transform(self, results: dict) -> dict:
        """Flip ``img`` and what belongs to it."""
        image = results['img']
        results = super().transform(results)
        direction = results['flip_direction']
        if direction is not None:
            code, *borders = _FLIPS[direction]
            results['img'] = cv2.flip(image, code)  # contiguous
            update_crop_box(results, *borders)
        return results


# Configs that 0.4 wrote look for it in this scope.
TRANSFORMS.register_module(name='RandomErasing', module=RandomErasing)


@TRANSFORMS.register_module(name='PackInputs')
class FastPackInputs(PackInputs):
    """mmpretrain's ``PackInputs``, faster, and with ``crop_box``.

    Args:
        input_key, algorithm_keys, meta_keys: See ``PackInputs``.
    """

    def __init__(self,
                 input_key: str = 'img',
                 algorithm_keys: Sequence[str] = (),
                 meta_keys: Sequence[str] = (*PackInputs.DEFAULT_META_KEYS,
                                             'crop_box')) -> None:
        super().__init__(input_key, algorithm_keys, meta_keys)

    @staticmethod
    def format_input(input_):
        """Convert an image, (H, W, 3), uint8, to a tensor, (3, H, W)."""
        if not isinstance(input_, np.ndarray) or input_.dtype != np.uint8 or (
                input_.shape[2:] != (3, )):
            return PackInputs.format_input(input_)
        planes = np.empty((3, *input_.shape[:2]), np.uint8)
        cv2.split(input_, list(planes))
        return torch.from_numpy(planes)
