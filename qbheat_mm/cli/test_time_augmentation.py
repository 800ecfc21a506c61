# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Drawing and test-time augmentation, as in mmdet's and mmpretrain's tools."""
import copy
import logging
import os.path as osp
from collections import Counter

from mmengine.config import Config, ConfigDict
from mmengine.dist import get_world_size
from mmengine.logging import print_log
from torch.utils.data import Dataset

from ..errors import UserError
from ..utils.settings import toolbox


def draw_predictions(cfg: Config, folder: str | None, show: bool,
                     wait_time: float) -> None:
    """Switch on the toolbox's hook that draws predictions.

    Args:
        cfg (Config): Of mmdet or mmpretrain, changed in place.
        folder (str, optional): For images.
        show (bool): Whether to open a window for each image.
        wait_time (float): Seconds that a window stays.

    Raises:
        UserError: If the config has no such hook.
    """
    hook = (cfg.get('default_hooks') or {}).get('visualization')
    if hook is None:
        raise UserError('--show and --show-dir need '
                        'default_hooks.visualization in the config')
    if toolbox(cfg) == 'mmdet':
        hook.update(draw=True, test_out_dir=folder)
    else:
        hook.update(enable=True, out_dir=folder, interval=1)
    if show:
        hook.update(show=True, wait_time=wait_time)


def warn_of_missing_images(cfg: Config, dataset: Dataset) -> None:
    """Warn of images that the toolboxes don't draw or overwrite.

    Args:
        cfg (Config): The config.
        dataset (Dataset): The test set.
    """
    processes = get_world_size()
    if processes > 1:
        print_log(f'--show-dir: only the first of {processes} processes draws '
                  'its images', 'current', logging.WARNING)
    if toolbox(cfg) != 'mmdet' or not hasattr(dataset, 'get_data_info'):
        return
    names = Counter(
        osp.basename(str(dataset.get_data_info(i).get('img_path')))
        for i in range(len(dataset)))
    if names.total() > len(names):
        print_log(f'--show-dir: {names.total() - len(names)} images overwrite '
                  'another of the same name (such as '
                  f'{names.most_common(1)[0][0]!r})', 'current',
                  logging.WARNING)


def augment_at_test_time(cfg: Config) -> None:
    """Test each image as it is and flipped, and merge the predictions.

    ``tta_model`` and ``tta_pipeline`` of the config take precedence.

    Args:
        cfg (Config): Of mmdet or mmpretrain, changed in place.

    Raises:
        UserError: If the toolbox can't merge or draw the predictions.
    """
    _require_mergeable(cfg)
    dataset = cfg.test_dataloader.dataset
    while 'dataset' in dataset:
        dataset = dataset.dataset
    detection = toolbox(cfg) == 'mmdet'
    model = cfg.get('tta_model')
    if model is None and detection:
        model = dict(type='DetTTAModel', tta_cfg=_merging(cfg))
    pipeline = cfg.get('tta_pipeline')
    if pipeline is None:
        *pipeline, pack = copy.deepcopy(dataset.pipeline)
        if 'meta_keys' in pack:  # mmdet flips boxes back by these
            pack.meta_keys = (*pack.meta_keys, 'flip', 'flip_direction')
        flip = 'RandomFlip' if detection else 'mmpretrain.RandomFlip'
        pipeline.append(dict(
            type='mmcv.TestTimeAug',
            transforms=[[dict(type=flip, prob=0.), dict(type=flip, prob=1.)],
                        [pack]]))
    cfg.model = ConfigDict(
        **(model or dict(type='mmpretrain.AverageClsScoreTTA')),
        module=cfg.model)
    dataset.pipeline = pipeline


def _merging(cfg: Config) -> dict:
    """Suppression of merged boxes: the detector's own, else mmdet's usual."""
    settings = cfg.model.get('test_cfg') or {}
    settings = settings.get('rcnn') or settings
    most = settings.get('max_per_img') or 100
    merging = dict(
        nms=settings.get('nms') or dict(type='nms', iou_threshold=0.5),
        max_per_img=most if most > 0 else 100)
    print_log(f'--tta merges boxes with {merging}', 'current')
    return merging


def _require_mergeable(cfg: Config) -> None:
    # mmdet and mmpretrain fail on the first image.
    if toolbox(cfg) == 'mmdet':
        heads = cfg.model.get('roi_head') or cfg.model
        if not cfg.get('tta_model') and heads.get('mask_head'):
            raise UserError('--tta: mmdet merges boxes but no masks, and '
                            f'{cfg.model.type} predicts masks')
    elif ((cfg.get('default_hooks') or {}).get('visualization') or {}).get(
            'enable'):
        raise UserError("--tta: mmpretrain can't draw augmented images, leave "
                        'out --show and --show-dir')
