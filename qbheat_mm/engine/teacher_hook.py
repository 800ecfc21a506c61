# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Encode the training images with a teacher."""
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from ..trained.encoder_target import EncoderTarget
from ..trained.normalization import Normalization
from ..utils.modules import unwrap


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
