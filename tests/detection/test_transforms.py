# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Images of a data set have one size."""
import numpy as np
import pytest
from mmdet.datasets.transforms import Resize
from mmengine.config import Config

from qbheat_mm.detection import PadToScale

from ..helpers.tools import ROOT

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
    height, width = results['img_shape']  # boxes end where the image does
    assert (results['img'][height:] == 127).all()
    assert (results['img'][:, width:] == 127).all()
    assert (results['img'][:height, :width] == 9).all()


@pytest.mark.parametrize('detector', ['gfl', 'retinanet', 'mask-rcnn'])
def test_test_images_are_prepared_as_training_images(detector):
    """But for flips, and alone: others in a batch add padding."""
    cfg = Config.fromfile(
        ROOT / f'configs/qbheat/coco/{detector}_mf-285m_own-data.py')
    for loader in (cfg.val_dataloader, cfg.test_dataloader):
        assert loader.batch_size == 1
        assert geometry(loader) == geometry(cfg.train_dataloader)


def geometry(loader):
    """Transforms between loading and packing, without flips."""
    return [step for step in loader.dataset.pipeline[1:-1]
            if step.type not in ('LoadAnnotations', 'RandomFlip')]
