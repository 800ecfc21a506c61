# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Draw predictions and augment at test time, like the toolboxes' tools."""
import copy

from mmengine.config import Config, ConfigDict

from ..errors import UserError
from ..utils.settings import dataset_settings, toolbox, type_name


def draw_predictions(cfg: Config, folder: str | None, show: bool,
                     wait_time: float) -> None:
    """Enable the toolbox's visualization hook.

    Args:
        cfg (Config): Config of mmdet or mmpretrain, changed in place.
        folder (str, optional): Folder for images.
        show (bool): Whether to open a window for each image.
        wait_time (float): Seconds that each window stays open.

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

    Changes a config of mmdet or mmpretrain in place. Its ``tta_model`` and
    ``tta_pipeline`` take precedence.
    """
    dataset = dataset_settings(cfg.test_dataloader)
    model, scope = dict(type='mmpretrain.AverageClsScoreTTA'), 'mmpretrain'
    if toolbox(cfg) == 'mmdet':
        model, scope = dict(type='DetTTAModel', tta_cfg=_merging(cfg)), 'mmdet'
    pipeline = cfg.get('tta_pipeline')
    if pipeline is None:
        steps = copy.deepcopy(dataset.pipeline)
        pack = steps[-1]
        if 'meta_keys' in pack:  # mmdet flips boxes back by these
            pack.meta_keys = (*pack.meta_keys, 'flip', 'flip_direction')
        flips = [dict(type=f'{scope}.RandomFlip', prob=p) for p in (0., 1.)]
        # Images are flipped before they are padded, as in training.
        first = steps.index(pack)
        for step in steps:
            if type_name(step) == 'PadToScale':
                first = steps.index(step)
        augmented = [flips]
        for step in steps[first:]:
            augmented.append([step])
        pipeline = [*steps[:first],
                    dict(type='mmcv.TestTimeAug', transforms=augmented)]
    cfg.model = ConfigDict(cfg.get('tta_model') or model, module=cfg.model)
    dataset.pipeline = pipeline


def _merging(cfg: Config) -> dict:
    """How the detector merges boxes, by default with NMS at 0.5."""
    settings = cfg.model.get('test_cfg') or {}
    settings = settings.get('rcnn') or settings
    most = settings.get('max_per_img') or 100
    return dict(
        nms=settings.get('nms') or dict(type='nms', iou_threshold=0.5),
        max_per_img=most if most > 0 else 100)
