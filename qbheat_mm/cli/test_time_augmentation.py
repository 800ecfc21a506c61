# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Draw predictions and augment at test time, as the toolboxes' tools do."""
import copy

from mmengine.config import Config, ConfigDict
from mmengine.logging import print_log

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


def augment_at_test_time(cfg: Config) -> None:
    """Merge the predictions for each image and its mirror image.

    ``tta_model`` and ``tta_pipeline`` of the config take precedence.

    Args:
        cfg (Config): Of mmdet or mmpretrain, changed in place.
    """
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
    """How to merge boxes: like the detector, by default with NMS at 0.5."""
    settings = cfg.model.get('test_cfg') or {}
    settings = settings.get('rcnn') or settings
    most = settings.get('max_per_img') or 100
    merging = dict(
        nms=settings.get('nms') or dict(type='nms', iou_threshold=0.5),
        max_per_img=most if most > 0 else 100)
    print_log(f'--tta merges boxes with {merging}', 'current')
    return merging
