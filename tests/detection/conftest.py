"""A tiny COCO-format data set and small models, made at run time."""
import json
from pathlib import Path

import mmcv
import numpy as np
import pytest
import torch
from mmdet.registry import MODELS
from mmdet.utils import register_all_modules
from mmengine.config import Config
from mmengine.registry import MODELS as ROOT_MODELS
from torch import nn

import qbheat_mm.detection  # noqa: F401

from .inputs import CLASSES, TINY_ARCH, TINY_DECODER

CONFIGS = Path(__file__).parents[2] / 'configs'


@pytest.fixture(autouse=True)
def mmdet_scope():
    register_all_modules()


def write_coco(root: Path, classes=CLASSES,
               sizes=((64, 96), (80, 48), (64, 64), (48, 80))):
    """Images with one object each, except the last, which has none.

    The second image also has a crowd and a box without width.
    """
    rng = np.random.default_rng(0)
    images, annotations = [], []
    for i, (height, width) in enumerate(sizes):
        image = rng.integers(0, 255, (height, width, 3), dtype=np.uint8)
        images.append(
            dict(id=i, file_name=f'{i}.png', height=height, width=width))
        if i < len(sizes) - 1:
            image[8:28, 8:32] = 80 * (i % 3)
            annotations.append(dict(
                id=i + 1, image_id=i, category_id=i % len(classes) + 1,
                bbox=[8, 8, 24, 20], area=24 * 20, iscrowd=0,
                segmentation=[[8, 8, 32, 8, 32, 28, 8, 28]]))
        if i == 1:
            crowd = dict(annotations[-1], id=100, iscrowd=1)
            degenerate = dict(annotations[-1], id=101, bbox=[5, 5, 0, 9])
            annotations += [crowd, degenerate]
        mmcv.imwrite(image, str(root / f'{i}.png'))
    (root / 'ann.json').write_text(json.dumps(dict(
        images=images, annotations=annotations,
        categories=[dict(id=i, name=name)
                    for i, name in enumerate(classes, 1)])))


@pytest.fixture
def coco_root(tmp_path):
    root = tmp_path / 'data'
    root.mkdir()
    write_coco(root)
    return root


@pytest.fixture
def tiny_config(coco_root, tmp_path):
    """MF-Dec-211, cut down in width, on the tiny set and encoder."""
    cfg = Config.fromfile(
        CONFIGS / 'qbheat/coco/mf-dec-211_mf-285m_frozen_8xb2-500e_coco.py')
    cfg.work_dir = str(tmp_path / 'work')
    cfg.train_cfg.update(max_epochs=1, val_interval=1)
    cfg.param_scheduler = []
    cfg.default_hooks.logger.interval = 1
    cfg.model.backbone.update(arch=TINY_ARCH, init_cfg=None)
    cfg.model.update(TINY_DECODER)
    cfg.model.bbox_head.update(num_classes=3, embed_dims=32)
    for split in ('train', 'val', 'test'):
        loader = cfg[f'{split}_dataloader']
        loader.update(num_workers=0, persistent_workers=False)
        loader.dataset.update(
            data_root=str(coco_root), ann_file='ann.json',
            data_prefix=dict(img=''), metainfo=dict(classes=CLASSES),
            filter_cfg=None)
        resize = dict(type='Resize', scale=(96, 96), keep_ratio=True)
        loader.dataset.pipeline = [
            resize if step.type in ('Resize', 'RandomChoice') else step
            for step in loader.dataset.pipeline]
    for split in ('val', 'test'):
        cfg[f'{split}_evaluator'].ann_file = str(coco_root / 'ann.json')
    return cfg


@ROOT_MODELS.register_module()
class GivenFeatures(nn.Module):
    """A backbone that returns given maps."""

    def __init__(self):
        super().__init__()
        self.feats = None

    def forward(self, x):
        return self.feats


@pytest.fixture
def head_config():
    """Config of a small detector on :class:`GivenFeatures`."""
    cfg = Config.fromfile(CONFIGS / '_base_/models/mf-dec.py').model
    cfg.backbone = dict(type='GivenFeatures')
    cfg.update(TINY_DECODER, in_channels=(6, 10), depths=(2, 1, 1),
               num_queries=7, former_mlp_dims=48)
    cfg.bbox_head.update(num_classes=3, embed_dims=32)
    return cfg


@pytest.fixture
def build_head(head_config):
    """A function that builds a small detector on :class:`GivenFeatures`."""

    def build(**kwargs):
        torch.manual_seed(0)
        model = MODELS.build(dict(head_config, **kwargs))
        model.init_weights()
        return model

    return build
