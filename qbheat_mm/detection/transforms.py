# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Transforms for detectors whose encoder sees each image once."""
from collections.abc import Sequence

import cv2
import numpy as np
from mmcv.image import rescale_size
from mmcv.transforms import BaseTransform
from mmdet.datasets.transforms import Pad
from mmdet.registry import TRANSFORMS

from ..datasets.image_cache import open_cache
from ..datasets.transforms import LoadNamedImageFromFile
from ..errors import ImageError

#: Sides of photographs that are shrunk while loading, relative to the scale.
_LARGE = 2
#: Gray of the padding, near the mean of most input normalizations.
_GRAY = dict(img=127, seg=255)


@TRANSFORMS.register_module()
class LoadShrunkImage(LoadNamedImageFromFile):
    """Load photographs and their boxes as if their files were smaller.

    Images with sides of at least twice ``scale`` are shrunk to it when they
    are first loaded, and kept in memory until 2 GiB are left (Linux only).
    Decoding them again would take longer than training. Others are loaded as
    usual, and so are images whose masks are run-length encoded.

    Args:
        scale (tuple[int, int]): Longer and shorter side to fit, as of
            ``Resize``.
        **kwargs: See ``LoadImageFromFile``.
    """

    def __init__(self, scale: tuple[int, int], **kwargs) -> None:
        super().__init__(**kwargs)
        self.scale = tuple(scale)
        self.cache = open_cache()  # before there are workers

    def transform(self, results: dict) -> dict | None:
        """Load ``img`` and scale ``instances`` with it.

        Args:
            results (dict): With ``img_path``, ``height``, ``width`` and
                ``sample_idx``, as from a data set.
        """
        size = results['width'], results['height']
        target = rescale_size(size, self.scale)
        if size[0] < _LARGE * target[0] or any(
                isinstance(one.get('mask'), dict)
                for one in results.get('instances', ())):
            return super().transform(results)
        try:
            image = self._shrunk(results, target)
        except ImageError as error:
            return self.skip(error)
        ratio = np.divide(target, size)
        results['instances'] = [
            _scale(one, ratio) for one in results.get('instances', ())]
        results['width'], results['height'] = target
        results['img'] = image.astype(np.float32) if self.to_float32 else image
        results['img_shape'] = results['ori_shape'] = image.shape[:2]
        return results

    def _shrunk(self, results: dict, target: tuple[int, int]) -> np.ndarray:
        """Return an image of this width and height, (H, W, 3), BGR."""
        index = results['sample_idx']
        kept = self.cache.get(index) if self.cache else None
        if kept is not None:
            return kept[2].copy()  # other transforms may write to it
        file = self.open(results)
        image = self.decode(file, file.reduction(target[1], target[0]))
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


@TRANSFORMS.register_module()
class PadToScale(BaseTransform):
    """Pad images to the scale of ``Resize(scale=..., keep_ratio=True)``.

    An image then has the same pixels in each batch, whatever the sizes of the
    others, which caches of features rely on. Upright images are padded to the
    upright scale.
    """

    def transform(self, results: dict) -> dict:
        """Pad ``img`` and masks on the right and below."""
        longer, shorter = max(results['scale']), min(results['scale'])
        height, width = results['img_shape']
        size = (longer, shorter) if width >= height else (shorter, longer)
        return Pad(size=size, pad_val=_GRAY)(results)
