# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Short logs, early warnings, and speed in images per second.

The log file has every message.
"""
import logging
import math
import time
from collections.abc import Iterator
from datetime import timedelta

from mmengine.dist import master_only
from mmengine.hooks import Hook
from mmengine.logging import MMLogger
from mmengine.registry import HOOKS, LOG_PROCESSORS
from mmengine.runner import IterBasedTrainLoop, LogProcessor, Runner
from torch import nn

from ..teacher import DistillationLoop
from ..utils.modules import unwrap
from .frozen_features import FrozenFeaturesHook

#: Fewer images than this give poor features, without a teacher.
FEW_IMAGES = 1000
#: Fewer steps than this rarely give good features with a teacher.
FEW_STEPS = 500
#: Fewer steps than this rarely give a detector any boxes.
FEW_DETECTOR_STEPS = 200
#: The duration is estimated after so many steps or seconds.
STEPS, SECONDS = 20, 60
HOUR = timedelta(hours=1)

#: Messages that repeat, for each parameter or epoch, or that only developers
#: can act on.
_FILE_ONLY = ('paramwise_options', 'Exp name: ', '"FileClient"',
              '"HardDiskBackend"', 'Distributed training is not used',
              'Evaluating ', 'bbox_mAP_copypaste: ', 'segm_mAP_copypaste: ',
              'The prefix is not set in metric class ')


def shorten_console(logger: MMLogger) -> None:
    """Keep repeated messages off the console, unless the level is DEBUG."""
    for handler in _consoles(logger):
        handler.addFilter(_is_for_console)


def set_console_level(logger: MMLogger, level: str) -> None:
    """Show messages of this level and above, unless the level is DEBUG."""
    for handler in _consoles(logger):
        if handler.level < logging.ERROR:  # silent in other processes
            handler.setLevel(level)


def _consoles(logger: MMLogger) -> Iterator[logging.Handler]:
    for handler in logger.handlers:
        if not isinstance(handler, logging.FileHandler) and (
                handler.level > logging.DEBUG):
            yield handler


def _is_for_console(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    return not (text.startswith(_FILE_ONLY) or ' is skipped since' in text
                or text.endswith(' the original LR by 1.0.'))


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
    """Warn of few images or steps, before the time is spent."""

    @master_only
    def before_train(self, runner: Runner) -> None:
        """Warn if features or boxes will be poor."""
        images = len(runner.train_dataloader.dataset)
        inputs = _preprocessors(unwrap(runner.model))
        if isinstance(runner.train_loop, DistillationLoop):
            if runner.max_iters < FEW_STEPS:
                enough = math.ceil(
                    FEW_STEPS / len(runner.train_dataloader))
                runner.logger.warning(
                    f'{runner.max_iters} steps are few for distillation: '
                    f'expect useful features after about {FEW_STEPS} '
                    f'(train_cfg.max_epochs={enough} '
                    f'distillation.epochs={enough})')
        elif images < FEW_IMAGES and 'SelfSupDataPreprocessor' in inputs:
            runner.logger.warning(
                f'{images} images are few for pre-training: expect useful '
                f'features from about {FEW_IMAGES} images, or use published '
                'weights')
        if runner.max_iters < FEW_DETECTOR_STEPS and (
                'DetDataPreprocessor' in inputs):
            runner.logger.warning(
                f'{runner.max_iters} steps are few for a detector: expect '
                f'boxes after about {FEW_DETECTOR_STEPS}')


class Stopwatch:
    """Add up the time of laps.

    Attributes:
        seconds (float): Time of all laps.
        laps (int): Their number.
    """

    def __init__(self) -> None:
        self.seconds, self.laps = 0., 0

    def start(self) -> None:
        """Start a lap; what passed since the last one does not count."""
        self._started = time.monotonic()

    def lap(self) -> None:
        """End a lap and start the next."""
        now = time.monotonic()
        self.seconds += now - self._started
        self.laps += 1
        self._started = now


@HOOKS.register_module()
class DurationHook(Hook):
    """Estimate the duration of a run, with its evaluations.

    Before the first evaluation, an image is assumed to take as long as in
    training; after it, the estimate is corrected.
    """

    def __init__(self) -> None:
        self._steps, self._evaluations = Stopwatch(), Stopwatch()
        self._is_estimated = False

    def before_train(self, runner: Runner) -> None:
        """Note the first step to time."""
        # Steps are faster once the features of all images are cached.
        cached = any(isinstance(hook, FrozenFeaturesHook)
                     for hook in runner.hooks)
        self._first = runner.iter + (
            len(runner.train_dataloader) if cached else 0)

    @master_only
    def after_train_iter(self, runner: Runner, batch_idx: int,
                         data_batch=None, outputs=None) -> None:
        """Estimate the duration once."""
        if runner.iter == self._first:  # it waited for workers
            self._steps.start()
        elif runner.iter > self._first:
            self._steps.lap()
        if not self._is_estimated and (self._steps.laps >= STEPS
                                       or self._steps.seconds >= SECONDS):
            self._is_estimated = True
            self._report(runner, 'this run will take', runner.iter + 1)

    def before_val_epoch(self, runner: Runner) -> None:
        """Time evaluations apart."""
        self._evaluations.start()

    @master_only
    def after_val_epoch(self, runner: Runner, metrics=None) -> None:
        """Correct the estimate after the first evaluation."""
        self._evaluations.lap()
        self._steps.start()
        if self._is_estimated and self._evaluations.laps == 1:
            self._report(runner, 'the rest will take', runner.iter)

    def _report(self, runner: Runner, start: str, done: int) -> None:
        step = self._steps.seconds / self._steps.laps
        evaluation = 0.
        if self._evaluations.laps:
            evaluation = self._evaluations.seconds / self._evaluations.laps
        elif runner.val_loop is not None:
            evaluation = step * (
                len(runner.val_dataloader.dataset)
                / runner.train_dataloader.batch_sampler.batch_size)
        seconds = (runner.max_iters - done) * step
        seconds += _count_evaluations(runner) * evaluation
        if not seconds:
            return
        left = timedelta(seconds=round(seconds))
        included = ', with evaluations' if evaluation else ''
        advice = ''
        if left > HOUR and not next(runner.model.parameters()).is_cuda:
            advice = (': smaller images take less (docs/own_data.md, "Small '
                      'machines and short runs")')
        runner.logger.info(f'{start} about {left} on this machine{included}'
                           f'{advice}')


def _count_evaluations(runner: Runner) -> int:
    """Evaluations that are to come, also right after this step."""
    loop = runner.train_loop
    if runner.val_loop is None:
        return 0
    done, end = runner.iter, loop.max_iters
    if not isinstance(loop, IterBasedTrainLoop):
        done, end = done // len(loop.dataloader), loop.max_epochs
    number = 0
    for moment in range(max(done + 1, loop.val_begin), end + 1):
        if moment % loop.val_interval == 0 or moment == end:
            number += 1
    return number


def _preprocessors(model: nn.Module) -> list[str]:
    """Return class names; importing mmpretrain's classes imports mmdet."""
    return [kind.__name__ for kind in type(model.data_preprocessor).__mro__]
