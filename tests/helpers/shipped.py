"""The shipped configs, and how to run them on tiny data."""
import copy
import functools
import json
import re
from pathlib import Path

import mmcv
import numpy as np
import pytest
from mmengine.config import Config
from mmengine.config import config as reading

ROOT = Path(__file__).parents[2] / 'configs'
DEMO_ROOT = ROOT.parent / 'projects/drawn_world/configs'
NAMES = sorted(
    name for path in ROOT.rglob('*.py')
    if not (name := path.relative_to(ROOT).as_posix()).startswith('_base_/'))
DEMOS = sorted(f'demo/{path.name}' for path in DEMO_ROOT.glob('*.py'))
# mmengine asks again for each base from another package.
reading.is_installed = functools.cache(reading.is_installed)
reading.get_installed_path = functools.cache(reading.get_installed_path)
SIZE = 64  # pixels of the tiny images


def is_detector(name):
    """Whether a config needs mmdet."""
    return 'coco' in name.split('/') or name in DEMOS and re.search(
        'mask-rcnn|mf-dec|retinanet', name)


@functools.cache
def _load(name):
    if is_detector(name):
        pytest.importorskip('mmdet')
    if name in DEMOS:
        return Config.fromfile(DEMO_ROOT / name.removeprefix('demo/'))
    return Config.fromfile(ROOT / name)


def load(name):
    """Return a copy of the resolved config."""
    return copy.deepcopy(_load(name))


def find(*parts):
    """Return the names that contain all parts."""
    names = NAMES
    for part in parts:
        names = [name for name in names if part in name]
    return names


def write_image(path, height=80, width=96):
    image = np.random.default_rng(0).integers(
        0, 255, (height, width, 3), dtype=np.uint8)
    mmcv.imwrite(image, str(path))


def write_imagenet(root):
    """Write four images for each of two splits, in ImageNet's layout."""
    (root / 'meta').mkdir()
    for split in ('train', 'val'):
        for i in range(4):
            write_image(root / split / f'{i}.jpg')
        (root / 'meta' / f'{split}.txt').write_text(
            ''.join(f'{i}.jpg {i}\n' for i in range(4)))


def write_classes(root, names):
    """Write two images into a folder for each class."""
    for name in names:
        for i in range(2):
            write_image(root / name / f'{i}.png')


def write_folders(root):
    for split in ('train', 'val'):
        write_classes(root / split, 'ab')


IMAGES = [dict(id=i, file_name=f'{i}.jpg', width=SIZE, height=SIZE)
          for i in range(2)]


def write_coco(root, classes):
    """Write two images with an object each, in COCO's layout."""
    for image in IMAGES:
        write_image(root / 'train2017' / image['file_name'], SIZE, SIZE)
    boxes = [dict(id=i + 1, image_id=i, category_id=i + 1, area=1280,
                  iscrowd=0, bbox=[8, 8, 40, 32],
                  segmentation=[[8, 8, 48, 8, 48, 40, 8, 40]])
             for i in range(2)]
    content = dict(
        images=IMAGES, annotations=boxes,
        categories=[dict(id=i + 1, name=name)
                    for i, name in enumerate(classes)])
    (root / 'annotations').mkdir()
    for split in ('train', 'val'):
        path = root / 'annotations' / f'instances_{split}2017.json'
        path.write_text(json.dumps(content))
    (root / 'val2017').symlink_to(root / 'train2017')


def write_panoptic(root, classes, num_things):
    """Add an object on ground to these images, in COCO's panoptic layout."""
    ids = np.full((SIZE, SIZE, 3), (0, 0, 2), np.uint8)  # BGR: id 2
    ids[8:40, 8:48] = (0, 0, 1)
    annotations = []
    for i in range(2):
        thing = dict(id=1, category_id=i + 1, area=1280, iscrowd=0,
                     bbox=[8, 8, 40, 32])
        ground = dict(id=2, category_id=num_things + 1, area=SIZE**2 - 1280,
                      iscrowd=0, bbox=[0, 0, SIZE, SIZE])
        annotations.append(dict(image_id=i, file_name=f'{i}.png',
                                segments_info=[thing, ground]))
    content = dict(
        images=IMAGES, annotations=annotations,
        categories=[dict(id=i + 1, name=name, isthing=int(i < num_things))
                    for i, name in enumerate(classes)])
    for split in ('train', 'val'):
        folder = root / f'annotations/panoptic_{split}2017'
        for i in range(2):
            mmcv.imwrite(ids, str(folder / f'{i}.png'))
        folder.with_suffix('.json').write_text(json.dumps(content))


def write_own(root):
    """Write the images of COCO in the layout of docs/own_data.md."""
    write_coco(root, ('first', 'second'))
    (root / 'images').symlink_to(root / 'train2017')
    for split in ('train', 'val'):
        (root / f'annotations/{split}.json').symlink_to(
            f'instances_{split}2017.json')


def shrink(cfg, data, work_dir, size=SIZE):
    """Reduce a config to one step of a random encoder on tiny data."""
    for name in ('train', 'val', 'test'):
        loader = cfg.get(f'{name}_dataloader')
        if loader is None:
            continue
        loader.update(batch_size=2, num_workers=0, persistent_workers=False)
        loader.dataset.data_root = f'{data}/'
        shrink_pipeline(loader.dataset.pipeline, size)
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
    cfg.pop('custom_hooks', None)
    cfg.default_hooks.checkpoint_match.pop('required', None)
    cfg.work_dir = cfg.experiment_name = str(work_dir)
    return cfg


def shrink_pipeline(pipeline, size):
    """Load images of some pixels, by the same steps."""
    settings = dict(
        RandomResizedCrop=dict(scale=size),
        LoadRandomResizedCrop=dict(scale=size),
        CenterCrop=dict(crop_size=size),
        ResizeEdge=dict(scale=size), Resize=dict(scale=(size, size)),
        RandomChoiceResize=dict(scales=[(size, size)]),
        RandomCrop=dict(crop_size=(size // 2, size)))
    for transform in pipeline:
        if isinstance(transform, list):  # one of several ways
            shrink_pipeline(transform, size)
        else:
            shrink_pipeline(transform.get('transforms') or [], size)
            transform.update(settings.get(transform['type'], {}))
