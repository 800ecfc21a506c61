# Copyright (c) QB-Heat MM authors. All rights reserved.
"""RandAugment as in timm, with its slowest operations sped up."""
import cv2
import numpy as np
from mmpretrain.datasets import transforms as mmpretrain
from mmpretrain.datasets.transforms.auto_augment import RANDAUG_POLICIES

from ..registry import TRANSFORMS

_RAMP = np.arange(256, dtype=np.uint8)


class _ByTable:
    """Map each channel by a table of 256 values.

    mmcv computes histograms with ``np.histogram`` and maps pixels in int64
    or float64, which takes ten times as long. Results are bit-identical.
    """

    def transform(self, results: dict) -> dict:
        """Augment ``img``, (H, W, 3), uint8."""
        if not self.random_disable():
            image = results['img']
            results['img'] = cv2.LUT(image, self._table(image).astype(
                np.uint8)[None])
        return results


@TRANSFORMS.register_module(name='AutoContrast')
class LookupAutoContrast(_ByTable, mmpretrain.AutoContrast):
    """mmpretrain's ``AutoContrast``, faster."""

    @staticmethod
    def _table(image: np.ndarray) -> np.ndarray:
        """Stretch the values that occur to 0 to 255."""
        low, high = np.array([cv2.minMaxLoc(channel)[:2]
                              for channel in cv2.split(image)]).T
        flat = low == high
        slope = 255. / np.where(flat, 1, high - low)
        values = _RAMP[:, None]
        return np.where(flat, values,
                        np.clip(values * slope - low * slope, 0, 255))


@TRANSFORMS.register_module(name='Equalize')
class LookupEqualize(_ByTable, mmpretrain.Equalize):
    """mmpretrain's ``Equalize``, faster."""

    @staticmethod
    def _table(image: np.ndarray) -> np.ndarray:
        """Make all values about equally frequent."""
        counts = np.stack([
            cv2.calcHist([image], [channel], None, [256], [0, 256]).ravel()
            for channel in range(3)], axis=1).astype(int)
        last = 255 - (counts[::-1] > 0).argmax(0)
        step = (counts.sum(0) - counts[last, range(3)]) // 255
        below = counts.cumsum(0) - counts
        table = np.minimum((below + step // 2) // np.maximum(step, 1), 255)
        return np.where(step == 0, _RAMP[:, None], table)


@TRANSFORMS.register_module(name='Contrast')
class LookupContrast(_ByTable, mmpretrain.Contrast):
    """mmpretrain's ``Contrast``, faster."""

    def _table(self, image: np.ndarray) -> np.ndarray:
        """Move values away from the mean of the gray image, or towards it."""
        factor = 1 + self.random_negative(
            self.random_magnitude() if self.magnitude is None
            else self.magnitude)
        gray = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
        mean = round(cv2.sumElems(gray)[0] / gray.size)
        values = _RAMP.astype(np.float32)
        return np.clip(cv2.addWeighted(
            values, factor, np.full_like(values, mean), 1 - factor, 0), 0, 255)


class _ByRamp:
    """Map each value as mmpretrain maps the 256 possible ones."""

    def transform(self, results: dict) -> dict:
        """Augment ``img``, (H, W, 3), uint8."""
        table = super().transform(dict(img=_RAMP))['img']
        if table is not _RAMP:
            results['img'] = cv2.LUT(results['img'], table)
        return results


@TRANSFORMS.register_module(name='SolarizeAdd')
class LookupSolarizeAdd(_ByRamp, mmpretrain.SolarizeAdd):
    """mmpretrain's ``SolarizeAdd``, faster."""


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
class TimmPosterize(_ByRamp, _TimmRounding, mmpretrain.Posterize):
    """timm's ``Posterize`` (range (0, 4)) or ``PosterizeIncreasing``."""


@TRANSFORMS.register_module(name='Solarize')
class TimmSolarize(_ByRamp, _TimmRounding, mmpretrain.Solarize):
    """timm's ``Solarize`` (range (0, 256)) or ``SolarizeIncreasing``."""


@TRANSFORMS.register_module(name='RandAugment')
class LookupRandAugment(mmpretrain.RandAugment):
    """mmpretrain's ``RandAugment`` with the operations of this module."""

    def __init__(self, policies: str | list[dict], *args, **kwargs) -> None:
        if isinstance(policies, str):
            policies = RANDAUG_POLICIES[policies]
        # Otherwise all would be looked up in the scope of this class.
        ours = TRANSFORMS.module_dict
        scoped = []
        for policy in policies:
            scope = 'qbheat_mm' if policy['type'] in ours else 'mmpretrain'
            scoped.append({'_scope_': scope, **policy})
        super().__init__(scoped, *args, **kwargs)
