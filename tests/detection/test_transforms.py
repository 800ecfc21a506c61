# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Images of a data set have one size."""
import numpy as np
import pytest
from mmdet.datasets.transforms import Resize

from qbheat_mm.detection import PadToScale

SCALE = 64, 48


@pytest.mark.parametrize('size, padded', [
    ((400, 300), (64, 48)), ((300, 400), (48, 64)), ((400, 100), (64, 48)),
    ((100, 400), (48, 64)), ((200, 200), (64, 48))])
def test_images_have_one_size(size, padded):
    image = np.full((*size[::-1], 3), 9, np.uint8)
    results = dict(img=image, img_shape=size[::-1])
    results = PadToScale()(Resize(SCALE, keep_ratio=True)(results))
    assert results['img'].shape[:2] == padded[::-1]
    assert (results['img'][0, 0] == 9).all()
