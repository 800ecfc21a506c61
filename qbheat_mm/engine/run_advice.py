# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Tell users early what to expect of a run."""
import time
from datetime import timedelta
from pathlib import Path

from mmengine.dist import master_only
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import nn

from ..trained.checkpoint import few
from ..utils.modules import unwrap
from .resume import RunState

#: Fewer images than this give poor features.
FEW_IMAGES = 1000
#: The duration is estimated after so many steps or seconds.
STEPS, SECONDS = 20, 60


@HOOKS.register_module()
class RunAdviceHook(Hook):
    """Warn of few images and of an earlier run's files, estimate the duration.
    """

    @master_only
    def before_train(self, runner: Runner) -> None:
        """Warn before the time is spent."""
        self._began, self._estimated = None, False
        images = len(runner.train_dataloader.dataset)
        if images < FEW_IMAGES and _is_pretraining(unwrap(runner.model)):
            runner.logger.warning(
                f'{images} images are few for pre-training: expect useful '
                f'features from about {FEW_IMAGES} images')
        work_dir = Path(runner.work_dir)
        old = [] if RunState.of(runner).resumes else sorted(
            path.name for pattern in ('*.pth', '*.safetensors')
            for path in work_dir.glob(pattern))
        if old:
            runner.logger.warning(
                f"'{work_dir}' holds files of an earlier run ({few(old)}): "
                'delete them, choose another --work-dir, or continue that '
                'run with --resume')

    @master_only
    def after_train_iter(self, runner: Runner, batch_idx: int,
                         data_batch=None, outputs=None) -> None:
        """Estimate the duration once."""
        now = time.monotonic()
        if self._began is None:  # the first step also waits for workers
            self._began = now, runner.iter
        seconds, steps = now - self._began[0], runner.iter - self._began[1]
        if self._estimated or not steps or (
                steps < STEPS and seconds < SECONDS):
            return
        self._estimated = True
        left = timedelta(seconds=round(
            (runner.max_iters - runner.iter - 1) * seconds / steps))
        evaluations = ', plus evaluations' if runner.val_loop else ''
        runner.logger.info(f'this run will take about {left} on this '
                           f'machine{evaluations}')


def _is_pretraining(model: nn.Module) -> bool:
    """By name, since importing mmpretrain's class imports mmdet."""
    return 'SelfSupDataPreprocessor' in [
        kind.__name__ for kind in type(model.data_preprocessor).__mro__]
