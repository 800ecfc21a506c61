# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Stop a run that has diverged."""
import math

import torch
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner, find_latest_checkpoint

from ...errors import UserError


@HOOKS.register_module()
class StopOnNonFiniteLossHook(Hook):
    """Stop with one line when the loss is NaN or infinite.

    Checked in every iteration, before a checkpoint of the ruined weights can
    be written. mmengine reads the loss of each iteration from the device for
    its log anyhow, so that the check costs nothing more.
    """

    def after_train_iter(self,
                         runner: Runner,
                         batch_idx: int,
                         data_batch=None,
                         outputs: dict | None = None) -> None:
        """Check the losses of one step.

        Args:
            runner (Runner): The runner.
            batch_idx (int): Index of the batch.
            data_batch (Any): Unused.
            outputs (dict, optional): Names and scalar tensors, with the sum
                under ``'loss'``.

        Raises:
            UserError: If ``'loss'`` is there and not finite.
        """
        loss = (outputs or {}).get('loss')
        if loss is None or math.isfinite(float(loss.detach())):
            return
        parts = ', '.join(f'{name} {float(value.detach()):.4g}'
                          for name, value in outputs.items()
                          if isinstance(value, torch.Tensor))
        last = find_latest_checkpoint(runner.work_dir)
        last = (f'the last checkpoint is {last}'
                if last else 'there is no checkpoint yet')
        raise UserError(
            f'the loss is not finite in iteration {runner.iter + 1} of epoch '
            f'{runner.epoch + 1} ({parts}); {last}; lower '
            'optim_wrapper.optimizer.lr, set optim_wrapper.clip_grad, or '
            'train without AMP, then go on with --resume')
