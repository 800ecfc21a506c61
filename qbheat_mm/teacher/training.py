# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Training with a teacher: its maps, and how long it takes."""
import math

from mmengine.hooks import Hook
from mmengine.registry import HOOKS, LOOPS
from mmengine.runner import EpochBasedTrainLoop, Runner

from ..trained.normalization import Normalization
from ..utils.modules import unwrap
from .targets import EncoderTarget


@HOOKS.register_module()
class TeacherHook(Hook):
    """Prepare an ``EncoderTarget`` before training; others need nothing."""

    def before_train(self, runner: Runner) -> None:
        """Encode the training images, unless an earlier run did.

        Raises:
            UserError: See :meth:`EncoderTarget.prepare`.
        """
        model = unwrap(runner.model)
        generator = getattr(model, 'target_generator', None)
        if isinstance(generator, EncoderTarget):
            loader = runner.train_dataloader
            generator.prepare(
                loader.dataset, runner.work_dir, Normalization.of(model),
                next(model.parameters()).device, loader.num_workers)


@LOOPS.register_module()
class DistillationLoop(EpochBasedTrainLoop):
    """Train for a number of epochs, or longer if images are few.

    Args:
        *args: See ``EpochBasedTrainLoop``; ``max_epochs`` is the upper limit.
        epochs (int): Number of epochs, unless they have too few steps.
        steps (int): Smallest number of steps.
        **kwargs: See ``EpochBasedTrainLoop``.
    """

    def __init__(self, *args, epochs: int, steps: int, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        length = max(len(self.dataloader), 1)  # the runner rejects 0
        most = self._max_epochs
        self._max_epochs = min(most, max(epochs, math.ceil(steps / length)))
        self._max_iters = self._max_epochs * length
        if self._max_epochs < most:
            self.runner.logger.info(
                f'train_cfg.max_epochs: {most} -> {self._max_epochs} '
                f'(distillation: {epochs} epochs, or {steps} steps)')
