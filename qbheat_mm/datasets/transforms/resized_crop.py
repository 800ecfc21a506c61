# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A random crop, resized in one antialiased pass over bytes."""
import numpy as np
import torch
from mmpretrain.datasets.transforms import RandomResizedCrop
from torchvision.transforms.v2 import functional as F

from ...arguments import checked, one_of
from ...registry import TRANSFORMS

BACKENDS = ('torchvision', 'pillow', 'cv2')
#: What torchvision's kernel for bytes knows with antialiasing.
INTERPOLATIONS = ('bilinear', 'bicubic')


@TRANSFORMS.register_module(name='RandomResizedCrop')
class TorchvisionRandomResizedCrop(RandomResizedCrop):
    """mmpretrain's ``RandomResizedCrop`` with torchvision's kernel.

    It draws the same boxes from the same random numbers. The resized crop is
    that of ``backend='pillow'`` up to rounding: within 0.4 grey levels in the
    mean, and beyond two only where bicubic weights overshoot black or white.
    In the configurations it is ``dict(type='RandomResizedCrop',
    _scope_='qbheat_mm')``.

    Args:
        *args: Of mmpretrain's transform, but for the backend.
        interpolation (str): ``'bilinear'`` or ``'bicubic'``, antialiased; the
            other backends know more. Defaults to 'bicubic'.
        backend (str): ``'torchvision'``, or ``'pillow'`` or ``'cv2'`` for
            mmpretrain's own path. Defaults to 'torchvision'.
        **kwargs: Of mmpretrain's transform.

    Raises:
        UserError: If backend or interpolation is unknown.
    """

    @checked(backend=one_of(*BACKENDS))
    def __init__(self,
                 *args,
                 interpolation: str = 'bicubic',
                 backend: str = 'torchvision',
                 **kwargs) -> None:
        if backend == 'torchvision':
            one_of(*INTERPOLATIONS).check(
                "RandomResizedCrop with backend='torchvision': interpolation",
                interpolation)
        super().__init__(
            *args, interpolation=interpolation, backend=backend, **kwargs)

    def transform(self, results: dict) -> dict:
        """Crop and resize.

        Args:
            results (dict): With ``img``, (H, W, 3) or (H, W), uint8.

        Returns:
            dict: With the resized crop as ``img``, and its ``img_shape``.
        """
        image = results['img']
        if self.backend != 'torchvision' or image.dtype != np.uint8:
            return super().transform(results)
        top, left, height, width = self.rand_crop_params(image)
        # The kernel is quick where the channels of a pixel lie side by side.
        crop = np.ascontiguousarray(
            image[top:top + height, left:left + width])
        resized = F.resize(
            torch.from_numpy(crop.reshape(height, width, -1)).permute(2, 0, 1),
            list(self.scale), F.InterpolationMode(self.interpolation),
            antialias=True).permute(1, 2, 0).numpy()
        results['img'] = resized if image.ndim == 3 else resized[..., 0]
        results['img_shape'] = results['img'].shape
        return results
