# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Random crops, decoded no larger than needed, resized with antialiasing."""
from collections.abc import Sequence

import numpy as np
import torch
from mmengine.registry import TRANSFORMS as MMENGINE_TRANSFORMS
from mmpretrain.datasets.transforms import RandomResizedCrop
from PIL import Image
from torchvision.transforms.v2 import functional as F

from ...errors import UserError
from ...registry import TRANSFORMS
from ..images import REDUCTIONS
from .loading import LoadNamedImageFromFile


@TRANSFORMS.register_module(name='RandomResizedCrop')
class TorchvisionRandomResizedCrop(RandomResizedCrop):
    """mmpretrain's ``RandomResizedCrop`` with torchvision's faster resizing.

    The same seed gives the same boxes, and pixels within 0.4 gray levels of
    ``backend='pillow'`` on average. Configs write
    ``dict(type='RandomResizedCrop', _scope_='qbheat_mm')``.

    Args:
        scale (int | Sequence[int]): Side, or height and width, of the result.
        crop_ratio_range (tuple[float, float]): Area of the box relative to
            the image. Defaults to (0.08, 1.0).
        aspect_ratio_range (tuple[float, float]): Width by height of the box.
            Defaults to (3 / 4, 4 / 3).
        max_attempts (int): Boxes drawn before one in the center is taken.
            Defaults to 10.
        interpolation (str): ``'bilinear'`` or ``'bicubic'``, antialiased.
            Defaults to 'bicubic'.
    """

    def __init__(self,
                 scale: int | Sequence[int],
                 crop_ratio_range: tuple[float, float] = (0.08, 1.0),
                 aspect_ratio_range: tuple[float, float] = (3 / 4, 4 / 3),
                 max_attempts: int = 10,
                 interpolation: str = 'bicubic') -> None:
        if interpolation not in ('bilinear', 'bicubic'):
            raise UserError(f'interpolation={interpolation!r} must be '
                            "'bilinear' or 'bicubic'")
        super().__init__(scale, crop_ratio_range, aspect_ratio_range,
                         max_attempts, interpolation)

    def transform(self, results: dict) -> dict | None:
        """Crop and resize ``img``, (H, W, 3), uint8 or float."""
        image = results['img']
        image = self._resize(image, *self.rand_crop_params(image))
        results['img'], results['img_shape'] = image, image.shape
        return results

    def _resize(self, image: np.ndarray, top: int, left: int, height: int,
                width: int) -> np.ndarray:
        """Resize a box of an image."""
        # The kernel is fast only on contiguous memory.
        crop = np.ascontiguousarray(
            image[top:top + height, left:left + width])
        return F.resize(
            torch.from_numpy(crop).permute(2, 0, 1), list(self.scale),
            F.InterpolationMode(self.interpolation),
            antialias=True).permute(1, 2, 0).numpy()


@MMENGINE_TRANSFORMS.register_module()
class LoadRandomResizedCrop(TorchvisionRandomResizedCrop):
    """Load an image file and crop it, decoding no more than needed.

    ``LoadImageFromFile`` and ``RandomResizedCrop`` in one: the box is drawn
    first, and JPEG files of which it has pixels to spare are decoded at 1/2,
    1/4 or 1/8 of their size. The result is then within 1 gray level of
    that of the whole image, on average over photographs.

    Args:
        *args: Of ``RandomResizedCrop``.
        oversampling (float): How many times the target size a crop must
            have, along each side, after decoding at a reduced size. Smaller
            values are faster and less exact. Defaults to 2.
        ignore_empty (bool | str): See :class:`LoadNamedImageFromFile`.
            Defaults to False.
        backend_args (dict, optional): Of mmengine's file backends. Defaults
            to None.
        **kwargs: Of ``RandomResizedCrop``.
    """

    def __init__(self,
                 *args,
                 oversampling: float = 2.,
                 ignore_empty: bool | str = False,
                 backend_args: dict | None = None,
                 **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.oversampling = oversampling
        self.load = LoadNamedImageFromFile(
            ignore_empty=ignore_empty, backend_args=backend_args)

    def transform(self, results: dict) -> dict | None:
        """Load, crop and resize.

        Args:
            results (dict): With ``img_path``.

        Returns:
            dict | None: With ``img``, (h, w, 3), BGR, uint8, ``img_shape``
            and ``ori_shape``. None if the file is skipped.

        Raises:
            ImageError: If the file is unreadable.
        """
        file = self.load.open(results)
        if file is None:
            return None
        box = self.rand_crop_params(file)
        reduction = self._reduction(box) if file.reducible else 1
        image = self.load.decode(file, reduction)
        if image is None:
            return None
        image = (self._resize(image, *box) if reduction == 1 else
                 self._resize_reduced(image, box, reduction))
        results['img'], results['img_shape'] = image, image.shape
        results['ori_shape'] = file.shape
        return results

    def _reduction(self, box: tuple[int, int, int, int]) -> int:
        """The largest reduction that leaves enough pixels."""
        spare = min(side / (self.oversampling * target)
                    for side, target in zip(box[2:], self.scale, strict=True))
        return max((r for r in REDUCTIONS if r <= spare), default=1)

    def _resize_reduced(self, image: np.ndarray,
                        box: tuple[int, int, int, int],
                        reduction: int) -> np.ndarray:
        """Resize a box between the pixels, which only Pillow can."""
        top, left, height, width = (side / reduction for side in box)
        return np.asarray(Image.fromarray(image).resize(
            self.scale[::-1], Image.Resampling[self.interpolation.upper()],
            box=(left, top, left + width, top + height)))
