# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What mmdet's and mmpretrain's test tools change in a configuration."""
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

#: What mmdet needs to turn boxes of a flipped image back.
_FLIPS = ('flip', 'flip_direction')


def draw_predictions(cfg: Config, folder: str | None, show: bool,
                     wait_time: float) -> None:
    """Let the toolbox's hook draw predictions.

    Args:
        cfg (Config): Of mmdet or mmpretrain, changed in place.
        folder (str, optional): For pictures.
        show (bool): Whether to open a window for each image.
        wait_time (float): Seconds that a window stays.

    Raises:
        UserError: If the configuration has no such hook.
    """
    hook = (cfg.get('default_hooks') or {}).get('visualization')
    if hook is None:
        raise UserError('--show and --show-dir need the hook that draws: add '
                        '--cfg-options default_hooks.visualization.type='
                        'VisualizationHook (DetVisualizationHook in mmdet)')
    if toolbox(cfg) == 'mmdet':
        hook.update(draw=True, test_out_dir=folder)
    else:
        hook.update(enable=True, out_dir=folder, interval=1)
    if show:
        hook.update(show=True, wait_time=wait_time)


def warn_of_processes(folder: str) -> None:
    """Say that mmdet and mmpretrain draw in the first process alone.

    Args:
        folder (str): For pictures.
    """
    processes = get_world_size()
    if processes > 1:
        print_log(
            f'--show-dir {folder}: the first of {processes} processes draws '
            f'its own images, every {processes}th of all; one process, '
            'tools/test.py, draws all', 'current', logging.WARNING)


def warn_of_equal_names(dataset: Dataset, folder: str) -> None:
    """Say how many pictures mmdet writes over, which names them by the file.

    Args:
        dataset (Dataset): Whose images are drawn.
        folder (str): For pictures.
    """
    names = Counter(
        osp.basename(str(dataset.get_data_info(i).get('img_path')))
        for i in range(len(dataset))) if hasattr(
            dataset, 'get_data_info') else Counter()
    lost = names.total() - len(names)
    if lost:
        print_log(
            f'--show-dir {folder}: {lost} of {names.total()} images bear a '
            f'name that another has (as {names.most_common(1)[0][0]!r}), and '
            'pictures are called by it: the last of each stays',
            'current', logging.WARNING)


def augment_at_test_time(cfg: Config) -> None:
    """Test each image as it is and flipped, and merge the predictions.

    ``tta_model`` and ``tta_pipeline`` of the configuration are taken where
    they are there, as in mmdet's and mmpretrain's tools.

    Args:
        cfg (Config): Of mmdet or mmpretrain, changed in place.

    Raises:
        UserError: If there is no pipeline to augment, or the toolbox cannot
            merge masks or draw several views.
    """
    _require_mergeable(cfg)
    dataset = cfg.test_dataloader.dataset
    while 'dataset' in dataset:
        dataset = dataset.dataset
    detection = toolbox(cfg) == 'mmdet'
    model = cfg.get('tta_model')
    if model is None:
        model = dict(
            type='DetTTAModel',  # registered at the root
            tta_cfg=_merging(cfg)) if detection else dict(
                type='mmpretrain.AverageClsScoreTTA')
    pipeline = cfg.get('tta_pipeline')
    if pipeline is None:
        if not dataset.get('pipeline'):
            raise UserError('--tta: test_dataloader.dataset.pipeline is '
                            'empty: nothing loads the images')
        *pipeline, pack = copy.deepcopy(dataset.pipeline)
        if 'meta_keys' in pack:
            pack = dict(pack, meta_keys=(*pack['meta_keys'], *_FLIPS))
        flip = 'RandomFlip' if detection else 'mmpretrain.RandomFlip'
        pipeline.append(dict(
            type='mmcv.TestTimeAug',
            transforms=[[dict(type=flip, prob=0.), dict(type=flip, prob=1.)],
                        [pack]]))
    cfg.model = ConfigDict(**model, module=cfg.model)
    dataset.pipeline = pipeline


def _merging(cfg: Config) -> dict:
    """How many boxes of all views stay, and by which suppression.

    As the detector's own of one view; one without any, whose boxes are a set,
    finds each object once a view, and gets mmdet's usual one.
    """
    settings = cfg.model.get('test_cfg') or {}
    settings = settings.get('rcnn') or settings
    nms = settings.get('nms') or dict(type='nms', iou_threshold=0.5)
    most = settings.get('max_per_img') or 100
    merging = dict(nms=nms, max_per_img=most if most > 0 else 100)
    print_log(f'--tta: boxes of the views are merged by {merging}, as model.'
              'test_cfg has them, or else as usual', 'current')
    return merging


def _require_mergeable(cfg: Config) -> None:
    """Refuse what mmdet and mmpretrain break at in the first image.

    Raises:
        UserError: Naming it.
    """
    if toolbox(cfg) == 'mmdet':
        heads = cfg.model.get('roi_head') or cfg.model
        if not cfg.get('tta_model') and heads.get('mask_head'):
            raise UserError('--tta: mmdet merges the boxes of several views, '
                            f'and no masks, which {cfg.model.type} finds: '
                            'leave it out')
        return
    hook = (cfg.get('default_hooks') or {}).get('visualization') or {}
    if hook.get('enable'):
        raise UserError('--tta: mmpretrain draws no image of which there are '
                        'several views: leave out --tta, or --show and '
                        '--show-dir (default_hooks.visualization.enable)')
