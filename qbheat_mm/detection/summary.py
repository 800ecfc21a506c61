# Copyright (c) QB-Heat MM authors. All rights reserved.
"""End a run with what its detector achieves, and where to look."""
import math
import os.path as osp
import shlex
from collections.abc import Mapping
from pathlib import Path

from mmengine.dist import master_only
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

_KINDS = dict(bbox='boxes', segm='masks')
_THRESHOLD = 'val/coco/bbox_threshold'


@HOOKS.register_module()
class DetectionSummaryHook(Hook):
    """Log AP, AP50 and AP by class at the end of a run.

    Checkpoints get the score of the best F1 in the last evaluation, as
    ``meta['score_threshold']``.
    """

    # After the best checkpoint is written.
    priority = 'LOWEST'

    def __init__(self) -> None:
        self._best: tuple[float, int, Mapping] | None = None

    def before_val_epoch(self, runner: Runner) -> None:
        """Forget the threshold of the last evaluation: this may find none."""
        runner.message_hub.log_scalars.pop(_THRESHOLD, None)

    def after_val_epoch(self, runner: Runner, metrics: Mapping | None = None
                        ) -> None:
        """Keep the metrics of the best evaluation."""
        score = (metrics or {}).get('coco/bbox_mAP')
        if score is not None and (
                self._best is None or score > self._best[0]):
            self._best = score, runner.iter, metrics

    @master_only
    def after_train(self, runner: Runner) -> None:
        """Log the best evaluation, and the command to look at its boxes."""
        if self._best is None:
            return
        _, step, metrics = self._best
        for line in summarize(metrics):
            runner.logger.info(f'validation, step {step}: {line}')
        for hook in runner.hooks:
            best = getattr(hook, 'best_ckpt_path', None)
            if best:
                _log_command(runner, osp.relpath(best))

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict
                               ) -> None:
        """Store the threshold of the last evaluation in ``meta``."""
        known = runner.message_hub.log_scalars.get(_THRESHOLD)
        if known is not None:
            checkpoint['meta']['score_threshold'] = float(known.current())

    @master_only
    def after_test_epoch(self, runner: Runner, metrics: Mapping | None = None
                         ) -> None:
        """Log the metrics of the test set, and the command to look."""
        for line in summarize(metrics or {}):
            runner.logger.info(f'test: {line}')
        if metrics and 'coco/bbox_mAP' in metrics and runner.cfg.load_from:
            _log_command(runner, runner.cfg.load_from)


def _log_command(runner: Runner, checkpoint: str) -> None:
    """Log the command that shows the boxes of a checkpoint.

    It names the config in the run's folder, which has the ``--cfg-options``.
    """
    config = osp.join(runner.work_dir, osp.basename(runner.cfg.filename))
    command = shlex.join(['python', _find_tool('look.py'), osp.relpath(config),
                          checkpoint, '--out', 'looks/boxes'])
    runner.logger.info(f'to look at its boxes: {command}')


def _find_tool(name: str) -> str:
    """Path of one of our commands, in an installed package or a clone."""
    package = Path(__file__).resolve().parents[1]
    folders = package / '.mim/tools', package.parent / 'tools'
    folder = folders[0] if folders[0].is_dir() else folders[1]
    return osp.relpath((folder / name).resolve())


def summarize(metrics: Mapping[str, float]) -> list[str]:
    """Format COCO's metrics, in percent.

    Args:
        metrics (Mapping[str, float]): From ``CocoMetric``.

    Returns:
        list[str]: A line for boxes or masks, the threshold, the classes.
    """
    lines = []
    for kind, name in _KINDS.items():
        if f'coco/{kind}_mAP' in metrics:
            lines.append(f"AP {100 * metrics[f'coco/{kind}_mAP']:.1f}, AP50 "
                         f"{100 * metrics[f'coco/{kind}_mAP_50']:.1f} "
                         f'({name})')
    if 'coco/bbox_threshold' in metrics:
        lines.append('best F1 of boxes that score '
                     f"{metrics['coco/bbox_threshold']:.2f} or more")
    by_class = []
    for key, value in metrics.items():
        if key.endswith('_precision') and not math.isnan(value):
            label = key.removeprefix('coco/').removesuffix('_precision')
            by_class.append(f'{label} {100 * value:.1f}')
    if by_class:
        lines.append(f"AP by class: {', '.join(by_class)}")
    return lines
