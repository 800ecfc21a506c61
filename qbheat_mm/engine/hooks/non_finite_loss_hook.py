# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Stop a run that has diverged."""
import math
from pathlib import Path

import torch
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from ...compat import load_checkpoint
from ...errors import UserError
from ..weights import few, impossible, named_weights
from ..wrapping import unwrap

#: Times the first loss from which on a run is said to diverge.
DIVERGED = 100


@HOOKS.register_module()
class StopOnNonFiniteLossHook(Hook):
    """Stop with one line when the loss is NaN or infinite.

    Weights that are not finite before the first step are told as what they
    are, since no other learning rate helps against them.

    Checked in every iteration, before a checkpoint of the ruined weights can
    be written. mmengine reads the loss of each iteration from the device for
    its log anyhow, so that the check costs nothing more.

    A run can diverge and stay finite, since normalisation bounds what it can
    see of its weights: a loss of :data:`DIVERGED` times that of the first
    step is told once, and goes on.
    """

    def __init__(self) -> None:
        self.first: float | None = None
        self.is_told = False

    def before_train(self, runner: Runner) -> None:
        """Check the weights with which the run starts.

        Raises:
            UserError: Naming the first that are not finite, and their origin.
        """
        broken = impossible(unwrap(runner.model).state_dict())
        if broken:
            source = runner._load_from
            origin = f"checkpoint '{source}'" if source else (
                'the initialisation (init_cfg, pretrained)')
            raise UserError(
                f'{len(broken)} tensors of the model hold NaN or infinite '
                f'values before the first step ({few(broken)}): they come '
                f'from {origin}; take other weights')

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
        if loss is None:
            return
        if math.isfinite(float(loss.detach())):
            self._watch(runner, float(loss.detach()))
            return
        parts = ', '.join(f'{name} {float(value.detach()):.4g}'
                          for name, value in outputs.items()
                          if isinstance(value, torch.Tensor))
        raise UserError(
            f'the loss is not finite in iteration {runner.iter + 1} of epoch '
            f'{runner.epoch + 1} ({parts}): lower '
            'optim_wrapper.optimizer.lr, set optim_wrapper.clip_grad or train '
            f'without AMP; {say_last_good(runner.work_dir)}')

    def _watch(self, runner: Runner, loss: float) -> None:
        """Say once that a finite loss is far above that of the first step."""
        if self.first is None:
            self.first = abs(loss)
        if (self.is_told or not self.first
                or abs(loss) <= DIVERGED * self.first):
            return
        self.is_told = True
        runner.logger.warning(
            f'the loss is {loss:.4g} in iteration {runner.iter + 1}, '
            f'{DIVERGED} times what it was at first ({self.first:.4g}) or '
            'more: this run diverges; stop it, lower '
            'optim_wrapper.optimizer.lr or set optim_wrapper.clip_grad, and '
            'start again')


def say_last_good(work_dir: str) -> str:
    """Where a run that has diverged can go on from."""
    last = last_good_checkpoint(work_dir)
    # The rates of a resumed run are those of its checkpoint.
    return (f'the last good checkpoint is {last}: another rate by '
            f'load_from={last}, all else by --resume {last}'
            if last else 'there is no good checkpoint yet')


def last_good_checkpoint(work_dir: str) -> str | None:
    """The newest checkpoint of a run of which all weights are finite.

    A step can ruin the weights after a loss that was finite, just before a
    checkpoint of them is written, so that the last one is not always good.

    Args:
        work_dir (str): Folder with ``epoch_*.pth`` or ``iter_*.pth``.

    Returns:
        str | None: None if there is none.
    """
    files = [*Path(work_dir).glob('epoch_*.pth'),
             *Path(work_dir).glob('iter_*.pth')]
    for file in sorted(files, key=lambda file: -file.stat().st_mtime_ns):
        try:
            content = load_checkpoint(str(file), map_location='cpu')
        # A damaged file is not the matter here, and not good.
        except (UserError, FileNotFoundError):
            continue
        if not impossible(named_weights(content)):
            return str(file)
    return None
