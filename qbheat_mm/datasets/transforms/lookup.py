# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Augmentations that a table of 256 values describes, by looking it up.

mmcv counts the values of a channel by ``np.histogram`` and maps it in int64 or
float64, which takes ten times as long; results are the same to the bit.
"""
from collections.abc import Callable

import cv2
import numpy as np
from mmpretrain.datasets.transforms import RandAugment
from mmpretrain.datasets.transforms.auto_augment import (
    RANDAUG_POLICIES,
    AutoContrast,
    Equalize,
)

from ...registry import TRANSFORMS


def stretched(counts: np.ndarray) -> np.ndarray:
    """The table that makes the darkest value 0 and the lightest 255.

    Args:
        counts (np.ndarray): How often each of 256 values occurs.

    Returns:
        np.ndarray: (256, ), uint8.
    """
    values = np.arange(256)
    there = np.flatnonzero(counts)
    low, high = there[0], there[-1]
    if low == high:
        return values.astype(np.uint8)
    slope = 255. / (high - low)
    return np.clip(values * slope - low * slope, 0, 255).astype(np.uint8)


def equalized(counts: np.ndarray) -> np.ndarray:
    """The table after which all values are about as frequent.

    Args:
        counts (np.ndarray): How often each of 256 values occurs.

    Returns:
        np.ndarray: (256, ), uint8.
    """
    last = counts[np.flatnonzero(counts)[-1]]
    step = (counts.sum() - last) // 255
    if step == 0:
        return np.arange(256, dtype=np.uint8)
    below = np.cumsum(counts) - counts  # of smaller values
    table = np.minimum((below + step // 2) // step, 255)
    table[0] = 0
    return table.astype(np.uint8)


def look_up(image: np.ndarray,
            table_of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Map each channel of (H, W, C), uint8, by a table of its own."""
    counts = (cv2.calcHist([image], [channel], None, [256], [0, 256])
              for channel in range(image.shape[2]))
    tables = [table_of(count.ravel().astype(np.int64)) for count in counts]
    return cv2.LUT(image, np.stack(tables, axis=-1)[None])


def _fits(image: np.ndarray) -> bool:
    return (image.dtype == np.uint8 and image.ndim == 3
            and image.shape[2] == 3 and image.size > 0)


class _ByTable:
    """In front of a transform of mmpretrain that ``table_of`` describes."""
    table_of: Callable[[np.ndarray], np.ndarray]

    def transform(self, results: dict) -> dict:
        """As in mmpretrain, on ``img``, (H, W, 3)."""
        if not _fits(results['img']):
            return super().transform(results)
        if not self.random_disable():
            results['img'] = look_up(results['img'], self.table_of)
        return results


@TRANSFORMS.register_module(name='AutoContrast')
class LookupAutoContrast(_ByTable, AutoContrast):
    """mmpretrain's ``AutoContrast``, by a table."""
    table_of = staticmethod(stretched)


@TRANSFORMS.register_module(name='Equalize')
class LookupEqualize(_ByTable, Equalize):
    """mmpretrain's ``Equalize``, by a table."""
    table_of = staticmethod(equalized)


@TRANSFORMS.register_module(name='RandAugment')
class LookupRandAugment(RandAugment):
    """mmpretrain's ``RandAugment`` with our ``AutoContrast`` and ``Equalize``.

    Args:
        policies (str | list[dict]): As in mmpretrain.
        *args: As in mmpretrain.
        **kwargs: As in mmpretrain.
    """

    def __init__(self, policies: str | list[dict], *args, **kwargs) -> None:
        if isinstance(policies, str):
            policies = RANDAUG_POLICIES.get(policies, policies)
        if isinstance(policies, list | tuple):
            policies = [self._scoped(policy) for policy in policies]
        super().__init__(policies, *args, **kwargs)

    @staticmethod
    def _scoped(policy: dict) -> dict:
        """Say whose transform is meant; otherwise all would be ours."""
        if not isinstance(policy, dict) or '_scope_' in policy:
            return policy
        ours = policy.get('type') in ('AutoContrast', 'Equalize')
        return dict(policy, _scope_='qbheat_mm' if ours else 'mmpretrain')
