# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Decode large photographs once, at the size of training."""
from collections.abc import Sequence

import cv2
import numpy as np
from mmcv.image import rescale_size

from ..datasets.image_cache import open_cache
from ..datasets.transforms import LoadNamedImageFromFile

#: Sides of photographs to shrink, relative to the scale.
_LARGE = 2


class Photographs:
    """Large images of a data set, shrunk, with their boxes.

    They are decoded once and kept in memory until 2 GiB are left (Linux
    only): to decode them again would take longer than training.

    Args:
        scale (tuple[int, int]): Longer and shorter side to fit, as of
            ``Resize``.
    """

    def __init__(self, scale: tuple[int, int]) -> None:
        self.scale = tuple(scale)
        self.cache = open_cache()  # before there are workers

    def shrink(self, sample: dict, load: LoadNamedImageFromFile) -> dict:
        """Return a sample as if its file were smaller.

        Samples whose sides are below twice the scale, or with run-length
        encoded masks, are returned as they are.

        Args:
            sample (dict): With ``img_path``, ``height``, ``width``,
                ``sample_idx`` and ``instances``.
            load (LoadNamedImageFromFile): Decodes the file.

        Returns:
            dict: With ``img``, (H, W, 3), BGR, which ``load`` takes as it is.

        Raises:
            ImageError: If the file is unreadable.
        """
        size = sample['width'], sample['height']
        target = rescale_size(size, self.scale)
        encoded = [one for one in sample['instances']
                   if isinstance(one.get('mask'), dict)]
        if encoded or size[0] < _LARGE * target[0]:
            return sample
        image = self._load(sample, target, load)
        ratio = np.divide(target, size)
        return dict(
            sample, img=image, width=target[0], height=target[1],
            instances=[_scale(one, ratio) for one in sample['instances']])

    def _load(self, sample: dict, target: tuple[int, int],
              load: LoadNamedImageFromFile) -> np.ndarray:
        """Return an image of this width and height, (H, W, 3), BGR."""
        index = sample['sample_idx']
        kept = self.cache.get(index) if self.cache else None
        if kept is not None:
            return kept[2].copy()  # transforms may write to it
        file = load.open(sample)
        image = load.decode(file, file.reduction(target[1], target[0]))
        image = cv2.resize(image, target, interpolation=cv2.INTER_AREA)
        if self.cache:
            self.cache.put(index, image.shape[:2], 1, image)
        return image


def _scale(instance: dict, ratio: np.ndarray) -> dict:
    """Scale the box and the polygons of an object."""
    scaled = dict(instance, bbox=_scale_points(instance['bbox'], ratio))
    if 'mask' in instance:
        scaled['mask'] = [_scale_points(points, ratio)
                          for points in instance['mask']
                          if len(points) % 2 == 0]
    return scaled


def _scale_points(points: Sequence[float], ratio: np.ndarray) -> list[float]:
    return (np.reshape(points, (-1, 2)) * ratio).ravel().tolist()
