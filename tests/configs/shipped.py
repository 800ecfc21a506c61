"""The shipped configurations, and how to run one of them on tiny data."""
import copy
import functools
import json
from pathlib import Path

import mmcv
import numpy as np
from mmengine.config import Config

ROOT = Path(__file__).parents[2] / 'configs'
# The demo is run as a whole elsewhere.
NAMES = sorted(
    name for path in ROOT.rglob('*.py')
    if not (name := path.relative_to(ROOT).as_posix()).startswith(
        ('_base_/', 'demo/')))
SIZE = 64  # pixels; the encoders see a quarter of it in pre-training


@functools.cache
def _load(name):
    return Config.fromfile(ROOT / name)


def load(name):
    """The resolved configuration, one's own to change."""
    return copy.deepcopy(_load(name))


def find(*parts):
    """Names of the configurations that hold all parts."""
    return [name for name in NAMES if all(part in name for part in parts)]


def write_imagenet(root):
    """Four images of a train and of a val split, in ImageNet's layout."""
    random = np.random.default_rng(0)
    for split in ('train', 'val'):
        lines = []
        for i in range(4):
            image = random.integers(0, 255, (80, 96, 3), dtype=np.uint8)
            mmcv.imwrite(image, str(root / split / f'{i}.jpg'))
            lines.append(f'{i}.jpg {i}')
        (root / 'meta').mkdir(exist_ok=True)
        (root / 'meta' / f'{split}.txt').write_text('\n'.join(lines))


def write_coco(root, classes):
    """Two images with an object each, in COCO's layout."""
    random = np.random.default_rng(0)
    images, boxes = [], []
    for i in range(2):
        image = random.integers(0, 255, (SIZE, SIZE, 3), dtype=np.uint8)
        mmcv.imwrite(image, str(root / 'train2017' / f'{i}.jpg'))
        images.append(
            dict(id=i, file_name=f'{i}.jpg', width=SIZE, height=SIZE))
        boxes.append(
            dict(id=i + 1, image_id=i, category_id=i + 1, bbox=[8, 8, 40, 32],
                 area=1280, iscrowd=0))
    content = dict(
        images=images, annotations=boxes,
        categories=[dict(id=i, name=name) for i, name in enumerate(classes)])
    for split in ('train', 'val'):
        path = root / 'annotations' / f'instances_{split}2017.json'
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))
    (root / 'val2017').symlink_to(root / 'train2017')


def shrink(cfg, data, work_dir):
    """Cut a configuration down to one step on tiny data.

    Only sizes, places of data and AMP, which needs a GPU, are changed.
    """
    for name in ('train', 'val', 'test'):
        loader = cfg.get(f'{name}_dataloader')
        if loader is None:
            continue
        loader.update(batch_size=2, num_workers=0, persistent_workers=False)
        loader.dataset.data_root = str(data) + '/'
        _shrink_pipeline(loader.dataset.pipeline)
        if loader.dataset.get('ann_file'):  # COCO
            loader.dataset.filter_cfg = None
        evaluator = cfg.get(f'{name}_evaluator')
        if evaluator and evaluator.get('ann_file'):
            evaluator.ann_file = str(
                data / 'annotations/instances_val2017.json')
    if cfg.optim_wrapper.get('type') == 'AmpOptimWrapper':
        cfg.optim_wrapper.type = 'OptimWrapper'
        cfg.optim_wrapper.pop('loss_scale')
    if cfg.model.type == 'MoCo':
        cfg.model.queue_len = 8
    cfg.default_hooks.checkpoint.update(interval=-1, save_last=False)
    cfg.default_hooks.logger.interval = 1
    cfg.work_dir = str(work_dir)
    return cfg


def _shrink_pipeline(pipeline):
    # The decoder of a network of stride 32 needs twice the size.
    sizes = dict(RandomResizedCrop=SIZE, CenterCrop=SIZE, ResizeEdge=SIZE)
    for transform in pipeline:
        if isinstance(transform, list):  # alternatives
            _shrink_pipeline(transform)
            continue
        for key in ('transforms', ):
            _shrink_pipeline(transform.get(key) or [])
        if transform.type in sizes:
            key = 'crop_size' if 'Center' in transform.type else 'scale'
            transform[key] = sizes[transform.type]
        elif transform.type == 'RandomChoiceResize':
            transform.scales = [(SIZE, SIZE)]
        elif transform.type == 'RandomCrop':
            transform.crop_size = (SIZE // 2, SIZE)
        elif transform.type == 'Resize':
            transform.scale = (SIZE, SIZE)
