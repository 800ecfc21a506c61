# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Stop a run that has diverged."""
import math

from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import Tensor

from ...errors import UserError
from ...utils.modules import unwrap
from ..checkpoint import few, impossible, latest

#: A loss of this many times the first one is reported.
DIVERGED = 100


@HOOKS.register_module()
class StopOnNonFiniteLossHook(Hook):
    """Stop when the loss is NaN or infinite.

    Checked in every iteration, before a checkpoint of the ruined weights is
    written; mmengine's log reads the loss anyway. A loss that grows to
    :data:`DIVERGED` times the first one is reported once.
    """

    def __init__(self) -> None:
        self.first: float | None = None
        self.is_reported = False

    def before_train(self, runner: Runner) -> None:
        """Check the weights that the run starts from.

        Raises:
            UserError: Naming tensors that are not finite.
        """
        broken = impossible(unwrap(runner.model).state_dict())
        if broken:
            source = runner.cfg.get('load_from')
            origin = f"checkpoint '{source}'" if source else (
                'the initialization (init_cfg) or the resumed checkpoint')
            raise UserError(
                f'{len(broken)} tensors are NaN or infinite before the first '
                f'step ({few(broken)}), loaded from {origin}')

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
            outputs (dict, optional): Scalar tensors by name; ``'loss'`` is
                their sum.

        Raises:
            UserError: If ``'loss'`` is not finite.
        """
        if 'loss' not in (outputs or {}):
            return
        loss = float(outputs['loss'].detach())
        if not math.isfinite(loss):
            parts = ', '.join(
                f'{name} {float(value.detach()):.4g}' for name, value
                in outputs.items() if isinstance(value, Tensor))
            raise UserError(
                f'the loss is not finite in iteration {runner.iter + 1} of '
                f'epoch {runner.epoch + 1} ({parts}): lower '
                'optim_wrapper.optimizer.lr, set optim_wrapper.clip_grad or '
                f'use --no-amp; {say_last_good(runner.work_dir)}')
        if self.first is None:
            self.first = abs(loss)
        if 0 < self.first * DIVERGED < abs(loss) and not self.is_reported:
            self.is_reported = True
            runner.logger.warning(
                f'the loss is {loss:.4g} in iteration {runner.iter + 1} and '
                f'was {self.first:.4g} at first: the run diverges, lower '
                'optim_wrapper.optimizer.lr or set optim_wrapper.clip_grad')


def say_last_good(work_dir: str) -> str:
    """Where a diverged run can continue.

    Checkpoints are finite: :class:`SafeCheckpointHook` writes no others.
    """
    last = latest(work_dir)
    # A resumed run keeps the learning rates of its checkpoint.
    return (f'the last good checkpoint is {last}: load_from={last} for '
            'another learning rate, --resume otherwise'
            if last else 'there is no checkpoint yet')
