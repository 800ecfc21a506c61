# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Pipelines work for every random draw."""
import mmcv
import numpy as np
import pytest
import torch
from mmcv.transforms import Compose
from mmengine.registry import TRANSFORMS, DefaultScope

from .shipped import load, shrink


@pytest.mark.parametrize('name', [
    'mocov2/mocov2_mf-285m_8xb32-coslr-200e_in1k.py',
    'mobile_former/mf-26m_8xb128-coslr-450e_in1k.py',
    'qbheat/benchmarks/mf-3.7g_8xb512-tran1-coslr-200e_in1k.py',
])
def test_augmentation(name, tmp_path):
    pipeline = shrink(load(name), tmp_path,
                      tmp_path).train_dataloader.dataset.pipeline
    image = np.random.default_rng(0).integers(
        0, 255, (80, 96, 3), dtype=np.uint8)
    mmcv.imwrite(image, str(tmp_path / 'a.jpg'))
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        pipeline = Compose([TRANSFORMS.build(t) for t in pipeline])
    different = set()
    for seed in range(100):
        np.random.seed(seed)
        torch.manual_seed(seed)
        views = pipeline(dict(img_path=str(tmp_path / 'a.jpg')))['inputs']
        for view in views if isinstance(views, list) else [views]:
            assert view.dtype == torch.uint8 and view.shape == (3, 64, 64)
            different.add(view.numpy().tobytes())
    assert len(different) > 95
