# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A random crop that is drawn here, and decoded and cut on the GPU."""
import numpy as np
import torch
from mmcv.transforms import RandomFlip
from mmpretrain.structures import DataSample
from torch import Tensor

from ...arguments import SHARE, checked, optional
from ...registry import TRANSFORMS
from .resized_crop import TorchvisionRandomResizedCrop


@TRANSFORMS.register_module()
class PackEncodedCrop(TorchvisionRandomResizedCrop):
    """``RandomResizedCrop``, ``RandomFlip`` and ``PackInputs`` in one, later.

    Behind ``LoadImageFromFile`` with ``deferred=True``. Boxes and flips are
    those of the three transforms on the same random numbers; the work is left
    to ``DecodingDataPreprocessor``. What had to be decoded at once (no JPEG
    file, or turned by EXIF data) is cut here.

    Args:
        *args: Of ``RandomResizedCrop``.
        flip_prob (float, optional): Of flips to the other side; None draws no
            number for it. Defaults to 0.5.
        **kwargs: Of ``RandomResizedCrop``.

    Raises:
        UserError: If flip_prob is no share, or for ``RandomResizedCrop``.
    """

    @checked(flip_prob=optional(SHARE))
    def __init__(self, *args, flip_prob: float | None = 0.5,
                 **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.flip = None if flip_prob is None else RandomFlip(prob=flip_prob)

    def transform(self, results: dict) -> dict | None:
        """Draw, and pack the file.

        Args:
            results (dict): With ``undecoded`` or ``img``.

        Returns:
            dict | None: ``inputs``, the file's bytes, (N, ), or a crop,
            (3, h, w), BGR, both uint8; ``data_samples``, a ``DataSample``
            with ``crop``, (top, left, height, width) or None where the crop
            has been cut, ``flip``, bool, and ``img_path``.
        """
        undecoded = results.pop('undecoded', None)
        box = None
        if undecoded is None:
            results = super().transform(results)
            image = np.ascontiguousarray(results['img'].transpose(2, 0, 1))
        else:
            box = self.rand_crop_params(undecoded)
            image = np.frombuffer(undecoded.content, np.uint8).copy()
        flip = self.flip is not None and (
            self.flip._choose_direction() is not None)
        sample = DataSample(metainfo=dict(
            crop=box, flip=flip, img_path=results['img_path']))
        inputs: Tensor = torch.from_numpy(image)
        return dict(inputs=inputs, data_samples=sample)
