# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Tell users little, early, and in images per second.

The log file has every message.
"""
import logging
import time
from datetime import timedelta

from mmengine.dist import master_only
from mmengine.hooks import Hook
from mmengine.logging import MMLogger
from mmengine.registry import HOOKS, LOG_PROCESSORS
from mmengine.runner import LogProcessor, Runner
from torch import nn

from ..teacher import DistillationLoop
from ..utils.modules import unwrap
from .frozen_features import FrozenFeaturesHook

#: Fewer images than this give poor features, without a teacher.
FEW_IMAGES = 1000
#: Fewer steps than this rarely give a detector any boxes, or good features
#: with a teacher.
FEW_STEPS = 500
#: The duration is estimated after so many steps or seconds.
STEPS, SECONDS = 20, 60
HOUR = timedelta(hours=1)

#: Messages that repeat, for each parameter or epoch, or that only developers
#: can act on.
_FILE_ONLY = ('paramwise_options', 'Exp name: ', '"FileClient"',
              '"HardDiskBackend"', 'Distributed training is not used')


def shorten_console(logger: MMLogger) -> None:
    """Keep long reports off the console, unless the level is DEBUG."""
    for handler in logger.handlers:
        if not isinstance(handler, logging.FileHandler) and (
                handler.level > logging.DEBUG):
            handler.addFilter(_is_for_console)


def _is_for_console(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    if record.filename == 'runner.py' and '\n' in text:
        return False  # mmengine's reports on the whole run
    return not text.startswith(_FILE_ONLY) and ' is skipped since' not in text


@LOG_PROCESSORS.register_module()
class ThroughputLogProcessor(LogProcessor):
    """Also log images per second, of all processes."""

    def get_log_after_iter(self, runner: Runner, batch_idx: int,
                           mode: str) -> tuple[dict, str]:
        """See ``LogProcessor``."""
        if mode == 'train':
            hub = runner.message_hub
            seconds = hub.get_scalar('train/time').mean(self.window_size)
            # The loader itself has no batch size if it has a batch sampler.
            images = runner.train_dataloader.batch_sampler.batch_size
            hub.update_scalar('train/images_per_second',
                              images * runner.world_size / seconds)
        return super().get_log_after_iter(runner, batch_idx, mode)


@HOOKS.register_module()
class RunAdviceHook(Hook):
    """Warn of few images or steps; estimate the duration."""

    @master_only
    def before_train(self, runner: Runner) -> None:
        """Warn before the time is spent."""
        self._began, self._estimated = None, False
        # Steps are faster once the features of all images are cached.
        cached = any(isinstance(hook, FrozenFeaturesHook)
                     for hook in runner.hooks)
        self._first = runner.iter + (
            len(runner.train_dataloader) if cached else 0)
        images = len(runner.train_dataloader.dataset)
        inputs = _preprocessors(unwrap(runner.model))
        if isinstance(runner.train_loop, DistillationLoop):
            if runner.max_iters < FEW_STEPS:
                runner.logger.warning(
                    f'{runner.max_iters} steps are few for distillation: '
                    f'expect useful features after about {FEW_STEPS} (raise '
                    'train_cfg.max_epochs and distillation.epochs)')
        elif images < FEW_IMAGES and 'SelfSupDataPreprocessor' in inputs:
            runner.logger.warning(
                f'{images} images are few for pre-training: expect useful '
                f'features from about {FEW_IMAGES} images, or use published '
                'weights')
        if runner.max_iters < FEW_STEPS and 'DetDataPreprocessor' in inputs:
            runner.logger.warning(
                f'{runner.max_iters} steps are few for a detector: expect '
                f'boxes after about {FEW_STEPS}')

    @master_only
    def before_train_iter(self, runner: Runner, batch_idx: int,
                          data_batch=None) -> None:
        """Note when the first step that is timed starts."""
        if self._began is None:
            self._started = time.monotonic()

    @master_only
    def after_train_iter(self, runner: Runner, batch_idx: int,
                         data_batch=None, outputs=None) -> None:
        """Estimate the duration once."""
        if runner.iter < self._first:
            return
        now = time.monotonic()
        if self._began is None:  # the first step also waits for workers
            self._began = now, runner.iter
        seconds, steps = now - self._began[0], runner.iter - self._began[1]
        if not steps and now - self._started > SECONDS:
            seconds, steps = now - self._started, 1
        if self._estimated or not steps or (
                steps < STEPS and seconds < SECONDS):
            return
        self._estimated = True
        left = timedelta(seconds=round(
            (runner.max_iters - runner.iter - 1) * seconds / steps))
        evaluations = ', plus evaluations' if runner.val_loop else ''
        advice = ''
        if left > HOUR and not next(runner.model.parameters()).is_cuda:
            advice = (': smaller images take less (docs/own_data.md, "Small '
                      'machines and short runs")')
        runner.logger.info(f'this run will take about {left} on this '
                           f'machine{evaluations}{advice}')


def _preprocessors(model: nn.Module) -> list[str]:
    """Names of classes, since importing mmpretrain's imports mmdet."""
    return [kind.__name__ for kind in type(model.data_preprocessor).__mro__]
