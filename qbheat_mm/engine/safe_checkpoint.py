# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Checkpoints that survive a kill, a full disk or a diverging run."""
import math
import os
from pathlib import Path

from mmengine.dist import broadcast
from mmengine.fileio import LocalBackend, register_backend
from mmengine.hooks import CheckpointHook, Hook
from mmengine.registry import HOOKS
from mmengine.runner import IterBasedTrainLoop, Runner
from torch import Tensor

from ..errors import UserError
from ..trained.fit import few, non_finite
from ..utils.atomic_write import atomic_write
from ..utils.modules import unwrap
from .run_state import latest


class AtomicLocalBackend(LocalBackend):
    """Local files that exist completely or not at all."""

    def put(self, obj: bytes, filepath: str | Path) -> None:
        """Write a file; raise UserError if e.g. the disk is full."""
        try:
            with atomic_write(filepath) as part, open(part, 'wb') as file:
                file.write(obj)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise UserError(
                f"'{filepath}' can't be written ({error.strerror or error}); "
                'earlier checkpoints are kept: free space or set --work-dir, '
                'then use --resume') from error


register_backend(AtomicLocalBackend.__name__, AtomicLocalBackend, force=True)


@HOOKS.register_module()
class SafeCheckpointHook(CheckpointHook):
    """mmengine's ``CheckpointHook`` with atomic writes.

    Weights that are NaN or infinite are not written. In a copied work folder
    the best checkpoint of the original is left alone. After each checkpoint
    hooks with a method ``after_save_checkpoint`` are called.

    Args:
        interval (float): Epochs or iterations between two checkpoints, or
            the share of the run if below 1. Defaults to 0.1.
        kwargs: See ``CheckpointHook``. A given ``backend_args`` is kept.
    """

    def __init__(self, interval: float = 0.1, **kwargs) -> None:
        super().__init__(interval, **kwargs)
        if (self.backend_args is None and self.file_client_args is None
                and '://' not in str(self.out_dir)):
            self.backend_args = dict(backend=AtomicLocalBackend.__name__)

    def before_train(self, runner: Runner) -> None:
        """Set the interval, and look for the best checkpoints here."""
        if 0 < self.interval < 1:
            self._set_interval(runner)
        super().before_train(runner)
        if getattr(self, 'best_ckpt_path', None):
            self.best_ckpt_path = self._here(self.best_ckpt_path)
        paths = getattr(self, 'best_ckpt_path_dict', {})
        for metric, path in paths.items():
            if path:
                paths[metric] = self._here(path)

    def _set_interval(self, runner: Runner) -> None:
        """Count a share of the run in the unit of its loop."""
        self.by_epoch = not isinstance(runner.train_loop, IterBasedTrainLoop)
        end = runner.max_epochs if self.by_epoch else runner.max_iters
        # 0.28 * 25 is a little more than 7.
        self.interval = math.ceil(round(end * self.interval, 6))
        if self.filename_tmpl == 'epoch_{}.pth' and not self.by_epoch:
            self.filename_tmpl = 'iter_{}.pth'

    def _here(self, path: str) -> str:
        return self.file_backend.join_path(self.out_dir,
                                           os.path.basename(path))

    # mmengine deletes the oldest checkpoint before it writes the new one,
    # with no hook in between.
    def _save_checkpoint_with_step(self, runner: Runner, step: int,
                                   meta: dict) -> None:
        broken = non_finite(unwrap(runner.model).state_dict())
        if broken:
            raise UserError(
                f'{len(broken)} tensors of the model are NaN or infinite '
                f'after iteration {meta["iter"]} ({few(broken)}) and are not '
                f'written: {how_to_continue(self.out_dir)}')
        super()._save_checkpoint_with_step(runner, step, meta)
        runner.call_hook('after_save_checkpoint')


@HOOKS.register_module()
class StopOnNonFiniteLossHook(Hook):
    """Stop a run whose loss is NaN or infinite.

    Checked in every iteration; mmengine's log reads the loss anyway.
    """

    def after_train_iter(self, runner: Runner, batch_idx: int,
                         data_batch=None, outputs: dict | None = None) -> None:
        """Raise UserError if ``outputs['loss']`` is not finite."""
        loss = (outputs or {}).get('loss')
        if loss is not None and not math.isfinite(float(loss.detach())):
            parts = []
            for name, value in outputs.items():
                if isinstance(value, Tensor):
                    parts.append(f'{name} {float(value.detach()):.4g}')
            raise UserError(
                f'the loss is not finite in iteration {runner.iter + 1} of '
                f'epoch {runner.epoch + 1} ({", ".join(parts)}): '
                f'{how_to_continue(runner.work_dir)}')


def how_to_continue(work_dir: str) -> str:
    """Advise the user of a diverged run.

    Checkpoints are finite: :class:`SafeCheckpointHook` writes no others.
    """
    last = latest(work_dir)
    advice = ('lower optim_wrapper.optimizer.lr, set '
              'optim_wrapper.clip_grad or use --no-amp')
    if last is None:
        return f'{advice}; there is no checkpoint yet'
    # A resumed run keeps the learning rates of its checkpoint.
    return (f'{advice}; the last good checkpoint is {last}: load_from={last} '
            'for another learning rate, --resume otherwise')


@HOOKS.register_module()
class BroadcastBuffersHook(Hook):
    """Validate the network whose checkpoint is written.

    Every process has the batch statistics of its own images, and the first
    one writes its own. Here all processes take these before they validate.

    mmengine's ``SyncBuffersHook`` averages statistics instead, in
    iteration-based loops only after the checkpoint was written, and leaves
    out averaged weights (``EMAHook``). No-op with one process.
    """

    # After EMAHook has swapped in the averaged weights.
    priority = 'BELOW_NORMAL'

    def before_val_epoch(self, runner: Runner) -> None:
        """Send the first process's buffers to the others."""
        for buffer in runner.model.buffers():
            broadcast(buffer)
