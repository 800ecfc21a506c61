# Copyright (c) QB-Heat MM authors. All rights reserved.
"""RandAugment as in timm, with its slowest operations sped up."""
import cv2
import numpy as np
from mmpretrain.datasets import transforms as mmpretrain
from mmpretrain.datasets.transforms.auto_augment import RANDAUG_POLICIES

from ..registry import TRANSFORMS


class _ByTable:
    """Map each channel by a table of 256 values.

    mmcv computes histograms with ``np.histogram`` and maps pixels in int64
    or float64, which takes ten times as long. Results are bit-identical.
    """

    def transform(self, results: dict) -> dict:
        """Augment ``img``, (H, W, 3), uint8."""
        if not self.random_disable():
            image = results['img']
            tables = [self._table(cv2.calcHist(
                [image], [channel], None, [256], [0, 256]).ravel().astype(int))
                for channel in range(3)]
            results['img'] = cv2.LUT(
                image, np.stack(tables, axis=-1)[None].astype(np.uint8))
        return results


@TRANSFORMS.register_module(name='AutoContrast')
class LookupAutoContrast(_ByTable, mmpretrain.AutoContrast):
    """mmpretrain's ``AutoContrast``, faster."""

    @staticmethod
    def _table(counts: np.ndarray) -> np.ndarray:
        """Stretch the values that occur to 0 to 255."""
        values = np.arange(256)
        low, high = np.flatnonzero(counts)[[0, -1]]
        if low == high:
            return values
        slope = 255. / (high - low)
        return np.clip(values * slope - low * slope, 0, 255)


@TRANSFORMS.register_module(name='Equalize')
class LookupEqualize(_ByTable, mmpretrain.Equalize):
    """mmpretrain's ``Equalize``, faster."""

    @staticmethod
    def _table(counts: np.ndarray) -> np.ndarray:
        """Make all values about equally frequent."""
        last = counts[np.flatnonzero(counts)[-1]]
        step = (counts.sum() - last) // 255
        if step == 0:
            return np.arange(256)
        below = np.cumsum(counts) - counts
        table = np.minimum((below + step // 2) // step, 255)
        return table


class _TimmRounding:
    """Round the change from the start of the range towards 0, like timm.

    mmpretrain rounds ``Posterize`` up, which is right only for (4, 0), and
    doesn't round ``Solarize``.
    """

    def random_magnitude(self) -> int:
        """Draw a magnitude."""
        start = self.magnitude_range[0]
        return start + int(super().random_magnitude() - start)


@TRANSFORMS.register_module(name='Posterize')
class TimmPosterize(_TimmRounding, mmpretrain.Posterize):
    """timm's ``Posterize`` (range (0, 4)) or ``PosterizeIncreasing``."""


@TRANSFORMS.register_module(name='Solarize')
class TimmSolarize(_TimmRounding, mmpretrain.Solarize):
    """timm's ``Solarize`` (range (0, 256)) or ``SolarizeIncreasing``."""


@TRANSFORMS.register_module(name='RandAugment')
class LookupRandAugment(mmpretrain.RandAugment):
    """mmpretrain's ``RandAugment`` with the operations of this module.

    Args:
        policies (str | list[dict]): See ``RandAugment``.
        *args: See ``RandAugment``.
        **kwargs: See ``RandAugment``.
    """

    def __init__(self, policies: str | list[dict], *args, **kwargs) -> None:
        if isinstance(policies, str):
            policies = RANDAUG_POLICIES[policies]
        # Otherwise all would be looked up in the scope of this class.
        ours = TRANSFORMS.module_dict
        policies = [
            {'_scope_': 'qbheat_mm' if each['type'] in ours else 'mmpretrain',
             **each} for each in policies]
        super().__init__(policies, *args, **kwargs)
