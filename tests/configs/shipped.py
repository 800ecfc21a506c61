"""The shipped configurations, and how to run one of them on tiny data."""
import copy
import functools
import json
from pathlib import Path

import mmcv
import numpy as np
from mmengine.config import Config
from mmengine.config import config as reading

ROOT = Path(__file__).parents[2] / 'configs'
DEMO_ROOT = ROOT.parent / 'projects/drawn_world/configs'
NAMES = sorted(
    name for path in ROOT.rglob('*.py')
    if not (name := path.relative_to(ROOT).as_posix()).startswith('_base_/'))
# The demo is run as a whole elsewhere.
DEMOS = sorted(f'demo/{path.name}' for path in DEMO_ROOT.glob('*.py'))
# For every base of another package mmengine reads anew what is installed.
reading.is_installed = functools.cache(reading.is_installed)
reading.get_installed_path = functools.cache(reading.get_installed_path)
SIZE = 64  # pixels of the tiny images


@functools.cache
def _load(name):
    if name in DEMOS:
        return Config.fromfile(DEMO_ROOT / name.removeprefix('demo/'))
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
                 area=1280, iscrowd=0,
                 segmentation=[[8, 8, 48, 8, 48, 40, 8, 40]]))
    content = dict(
        images=images, annotations=boxes,
        categories=[dict(id=i + 1, name=name)
                    for i, name in enumerate(classes)])
    for split in ('train', 'val'):
        path = root / 'annotations' / f'instances_{split}2017.json'
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))
    (root / 'val2017').symlink_to(root / 'train2017')


def write_panoptic(root, classes, num_things):
    """The same two images with an object on ground, in COCO's layout."""
    ids = np.full((SIZE, SIZE, 3), (0, 0, 2), np.uint8)  # BGR: id 2
    ids[8:40, 8:48] = (0, 0, 1)
    images, annotations = [], []
    for i in range(2):
        images.append(
            dict(id=i, file_name=f'{i}.jpg', width=SIZE, height=SIZE))
        areas = dict(zip((1, 2), ((1280, i + 1),
                                  (SIZE**2 - 1280, num_things + 1))))
        annotations.append(dict(
            image_id=i, file_name=f'{i}.png', segments_info=[
                dict(id=id, category_id=category, area=area, iscrowd=0,
                     bbox=[8, 8, 40, 32] if id == 1 else [0, 0, SIZE, SIZE])
                for id, (area, category) in areas.items()]))
    content = dict(images=images, annotations=annotations, categories=[
        dict(id=i + 1, name=name, isthing=int(i < num_things))
        for i, name in enumerate(classes)])
    for split in ('train', 'val'):
        folder = root / f'annotations/panoptic_{split}2017'
        for i in range(2):
            mmcv.imwrite(ids, str(folder / f'{i}.png'))
        folder.with_suffix('.json').write_text(json.dumps(content))


def write_own(root):
    """Two images with an object each, as docs/own_data.md lays them out."""
    write_coco(root, ('first', 'second'))
    (root / 'images').symlink_to(root / 'train2017')
    for split in ('train', 'val'):
        (root / f'annotations/{split}.json').symlink_to(
            f'instances_{split}2017.json')


def write_folders(root):
    """Two images of two classes each, in the layout of one's own folders."""
    random = np.random.default_rng(0)
    for split in ('train', 'val'):
        for name in ('a', 'b'):
            for i in range(2):
                image = random.integers(0, 255, (80, 96, 3), dtype=np.uint8)
                mmcv.imwrite(image, str(root / split / name / f'{i}.jpg'))


def shrink(cfg, data, work_dir, size=SIZE):
    """Cut a configuration down to one step on tiny data.

    Changed are sizes, places of data, AMP, which needs a GPU, and where the
    encoder's weights come from: it is random, on purpose.
    """
    for name in ('train', 'val', 'test'):
        loader = cfg.get(f'{name}_dataloader')
        if loader is None:
            continue
        loader.update(batch_size=2, num_workers=0, persistent_workers=False)
        loader.dataset.data_root = f'{data}/'
        _shrink_pipeline(loader.dataset.pipeline, size)
        loader.dataset.pop('filter_cfg', None)
        evaluator = cfg.get(f'{name}_evaluator')
        if evaluator and evaluator.get('ann_file'):
            evaluator.ann_file = (
                f'{data}/{cfg.val_dataloader.dataset.ann_file}')
    if cfg.optim_wrapper.get('type') == 'AmpOptimWrapper':
        cfg.optim_wrapper.type = 'OptimWrapper'
        cfg.optim_wrapper.pop('loss_scale')
    if cfg.model.type == 'MoCo':
        cfg.model.queue_len = 8  # a multiple of the batch
    if cfg.model.type == 'DINO':  # fewer positions than its 900 queries
        cfg.model.num_queries = 9
        cfg.model.encoder.num_layers = cfg.model.decoder.num_layers = 2
    if 'roi_head' in cfg.model:  # 13 of 14 million weights
        cfg.model.roi_head.bbox_head.fc_out_channels = 8
        cfg.model.train_cfg.rcnn.sampler.num = 16
        if 'mask_head' in cfg.model.roi_head:
            cfg.model.roi_head.mask_head.conv_out_channels = 8
    cfg.model.backbone.init_cfg = None
    cfg.pop('custom_hooks', None)  # which ask for the checkpoint
    cfg.work_dir = cfg.experiment_name = str(work_dir)
    return cfg


def _shrink_pipeline(pipeline, size):
    settings = dict(
        RandomResizedCrop=dict(scale=size),
        LoadRandomResizedCrop=dict(scale=size),
        CenterCrop=dict(crop_size=size),
        ResizeEdge=dict(scale=size), Resize=dict(scale=(size, size)),
        RandomChoiceResize=dict(scales=[(size, size)]),
        RandomCrop=dict(crop_size=(size // 2, size)))
    for transform in pipeline:
        if isinstance(transform, list):  # one of several ways
            _shrink_pipeline(transform, size)
        else:
            _shrink_pipeline(transform.get('transforms') or [], size)
            transform.update(settings.get(transform['type'], {}))
