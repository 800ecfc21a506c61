# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Transforms for detectors whose encoder sees each image once."""
from mmcv.transforms import BaseTransform
from mmdet.datasets.transforms import Pad
from mmdet.registry import TRANSFORMS

#: Gray of the padding, near the mean of most input normalizations.
_GRAY = dict(img=127, seg=255)


@TRANSFORMS.register_module()
class PadToScale(BaseTransform):
    """Pad images to the scale of ``Resize(scale=..., keep_ratio=True)``.

    An image then has the same pixels in each batch, whatever the sizes of the
    others, which caches of features rely on. Upright images are padded to the
    upright scale. ``img_shape`` stays that of the image, to which detectors
    clip boxes.
    """

    def transform(self, results: dict) -> dict:
        """Pad ``img`` and masks on the right and below."""
        longer, shorter = max(results['scale']), min(results['scale'])
        height, width = results['img_shape']
        size = (longer, shorter) if width >= height else (shorter, longer)
        padded = Pad(size=size, pad_val=_GRAY)(results)
        return dict(padded, img_shape=(height, width))
