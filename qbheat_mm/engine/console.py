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

from ..utils.modules import unwrap
from .frozen_features import FrozenFeaturesHook

#: Fewer images than this give poor features.
FEW_IMAGES = 1000
#: The duration is estimated after so many steps or seconds.
STEPS, SECONDS = 20, 60

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
    """Warn of few images; estimate the duration."""

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
        if images < FEW_IMAGES and _is_pretraining(unwrap(runner.model)):
            runner.logger.warning(
                f'{images} images are few for pre-training: expect useful '
                f'features from about {FEW_IMAGES} images')

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
