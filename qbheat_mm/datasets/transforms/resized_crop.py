# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A random crop, resized in one antialiased pass over bytes."""
import numpy as np
import torch
from mmpretrain.datasets.transforms import RandomResizedCrop
from PIL import Image
from torchvision.transforms.v2 import functional as F

from ...arguments import Rule, checked, is_number, one_of
from ...registry import TRANSFORMS
from ..undecoded import UndecodedImage

BACKENDS = ('torchvision', 'pillow', 'cv2')
#: What torchvision's kernel for bytes knows with antialiasing.
INTERPOLATIONS = ('bilinear', 'bicubic')
_AT_LEAST_ONE = Rule('a number, 1 or more', lambda v: is_number(v) and v >= 1)


@TRANSFORMS.register_module(name='RandomResizedCrop')
class TorchvisionRandomResizedCrop(RandomResizedCrop):
    """mmpretrain's ``RandomResizedCrop`` with torchvision's kernel.

    It draws the same boxes from the same random numbers. The resized crop is
    that of ``backend='pillow'`` up to rounding: within 0.4 grey levels in the
    mean, and beyond two only where bicubic weights overshoot black or white.
    In the configurations it is ``dict(type='RandomResizedCrop',
    _scope_='qbheat_mm')``.

    Behind ``LoadImageFromFile`` with ``deferred=True`` it draws its box first,
    and large crops of JPEG files are decoded at a half, a quarter or an eighth
    of their size, which libjpeg does in less time. What is left to resize is
    then within 1 grey level in the mean, of photographs.

    Args:
        *args: Of mmpretrain's transform, but for the backend.
        interpolation (str): ``'bilinear'`` or ``'bicubic'``, antialiased; the
            other backends know more. Defaults to 'bicubic'.
        backend (str): ``'torchvision'``, or ``'pillow'`` or ``'cv2'`` for
            mmpretrain's own path. Defaults to 'torchvision'.
        oversampling (float): How many times as many pixels as are wanted,
            along each side, a crop must have after it was decoded at a
            reduced size. With 1 more files are, and crops are less like those
            of whole pictures. Defaults to 2.
        **kwargs: Of mmpretrain's transform.

    Raises:
        UserError: If backend or interpolation is unknown, or ``oversampling``
            below 1.
    """

    @checked(backend=one_of(*BACKENDS), oversampling=_AT_LEAST_ONE)
    def __init__(self,
                 *args,
                 interpolation: str = 'bicubic',
                 backend: str = 'torchvision',
                 oversampling: float = 2.,
                 **kwargs) -> None:
        if backend == 'torchvision':
            one_of(*INTERPOLATIONS).check(
                "RandomResizedCrop with backend='torchvision': interpolation",
                interpolation)
        super().__init__(
            *args, interpolation=interpolation, backend=backend, **kwargs)
        self.oversampling = oversampling

    def transform(self, results: dict) -> dict | None:
        """Crop and resize.

        Args:
            results (dict): With ``img``, (H, W, 3) or (H, W), uint8 or
                another number, or ``undecoded``, an ``UndecodedImage``.

        Returns:
            dict | None: With the resized crop as ``img``, and its
            ``img_shape``. None for a damaged file that is ignored.
        """
        undecoded = results.pop('undecoded', None)
        if undecoded is not None and self.backend == 'torchvision':
            resized = self._decode_and_resize(undecoded)
            return None if resized is None else self._with(results, resized)
        if undecoded is not None:
            results['img'] = undecoded.decode(1)
            if results['img'] is None:
                return None
        image = results['img']
        if self.backend != 'torchvision':
            return super().transform(results)
        return self._with(
            results, self._resize(image, *self.rand_crop_params(image)))

    @staticmethod
    def _with(results: dict, image: np.ndarray) -> dict:
        results['img'] = image
        results['img_shape'] = image.shape
        return results

    def _decode_and_resize(self,
                           undecoded: UndecodedImage) -> np.ndarray | None:
        """A crop of what need not be decoded at its full size."""
        top, left, height, width = self.rand_crop_params(undecoded)
        by = undecoded.reduction_for((height, width), self.scale,
                                     self.oversampling)
        image = undecoded.decode(by)
        if image is None:
            return None
        if by == 1:
            return self._resize(image, top, left, height, width)
        # The box lies between the pixels, which Pillow allows.
        resized = Image.fromarray(image).resize(
            self.scale[::-1], Image.Resampling[self.interpolation.upper()],
            box=(left / by, top / by, (left + width) / by,
                 (top + height) / by))
        return np.asarray(resized)

    def _resize(self, image: np.ndarray, top: int, left: int, height: int,
                width: int) -> np.ndarray:
        """A crop, resized by torchvision's kernel."""
        # The kernel is quick where the channels of a pixel lie side by side.
        crop = np.ascontiguousarray(
            image[top:top + height, left:left + width])
        if image.dtype != np.uint8:  # it knows bytes and fractions
            crop = crop.astype(np.result_type(image.dtype, np.float32))
        resized = F.resize(
            torch.from_numpy(crop.reshape(height, width, -1)).permute(2, 0, 1),
            list(self.scale), F.InterpolationMode(self.interpolation),
            antialias=True).permute(1, 2, 0).numpy()
        if resized.dtype != image.dtype:
            if image.dtype.kind in 'iu':  # as for bytes
                limits = np.iinfo(image.dtype)
                resized = np.rint(resized).clip(limits.min, limits.max)
            resized = resized.astype(image.dtype)
        return resized if image.ndim == 3 else resized[..., 0]
