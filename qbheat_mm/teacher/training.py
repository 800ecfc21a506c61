# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Training with a teacher: its maps, and how long it takes."""
import math

from mmengine.hooks import Hook
from mmengine.registry import HOOKS, LOOPS
from mmengine.runner import EpochBasedTrainLoop, Runner

from ..errors import UserError
from ..trained.normalization import Normalization
from ..utils.modules import unwrap
from .targets import EncoderTarget
from .teacher import Teacher


@HOOKS.register_module()
class TeacherHook(Hook):
    """Prepare an ``EncoderTarget`` before training; others need nothing."""

    def before_train(self, runner: Runner) -> None:
        """Encode the training images, unless an earlier run did.

        Raises:
            UserError: If a resumed run had another teacher; see also
                :meth:`EncoderTarget.prepare`.
        """
        model = unwrap(runner.model)
        generator = getattr(model, 'target_generator', None)
        if not isinstance(generator, EncoderTarget):
            return
        teacher = generator.teacher
        runner.logger.info(
            f"teacher '{teacher.path}': {teacher.channels} channels of "
            f'{teacher.encoder.name} at {teacher.size[0]}x{teacher.size[1]} '
            f'pixels, strides {teacher.strides}')
        _require_same_teacher(runner, teacher, generator.online)
        loader = runner.train_dataloader
        generator.prepare(
            loader.dataset, runner.work_dir, Normalization.of(model),
            next(model.parameters()).device, loader.num_workers)


def _require_same_teacher(runner: Runner, teacher: Teacher, online: bool
                          ) -> None:
    """Raise UserError if the checkpoint of a resumed run had another one."""
    # Empty in checkpoints before 0.5.
    before = runner.message_hub.get_info('teacher')
    resumed = runner.iter > 0
    if resumed and before and (
            before['fingerprint'] != teacher.fingerprint
            or before.get('online', False) != online):
        raise UserError(
            f"'{runner.work_dir}' was trained with another teacher, "
            f"'{before['path']}', than '{teacher.path}', or other settings "
            'of model.target_generator: resume with those, or start a new '
            'run with load_from=FILE and without --resume')
    runner.message_hub.update_info('teacher', dict(
        path=teacher.path, fingerprint=teacher.fingerprint, online=online))


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
