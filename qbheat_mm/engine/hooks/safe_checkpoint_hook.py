# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Checkpoints that survive a kill, a full disk or a moved folder."""
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mmengine.fileio import LocalBackend, register_backend
from mmengine.hooks import CheckpointHook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from ...errors import UserError
from ...utils.atomic_write import atomic_write
from ...utils.modules import unwrap
from ..checkpoint import few, impossible
from .non_finite_loss_hook import say_last_good


class AtomicLocalBackend(LocalBackend):
    """Local files that exist completely or not at all."""

    def put(self, obj: bytes, filepath: str | Path) -> None:
        """Write a file under another name and rename it."""
        with atomic_write(filepath) as part, open(part, 'wb') as file:
            file.write(obj)
            file.flush()
            os.fsync(file.fileno())


register_backend(AtomicLocalBackend.__name__, AtomicLocalBackend, force=True)


@HOOKS.register_module()
class SafeCheckpointHook(CheckpointHook):
    """mmengine's ``CheckpointHook`` with atomic writes.

    Weights that are NaN or infinite are not written: a step can ruin them
    after a finite loss. In a copied work folder the best checkpoint of the
    original is left alone.

    Args:
        args, kwargs: See ``CheckpointHook``. A ``backend_args`` of your
            own is kept.
    """

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        if (self.backend_args is None and self.file_client_args is None
                and '://' not in str(self.out_dir)):
            self.backend_args = dict(backend=AtomicLocalBackend.__name__)

    def before_train(self, runner: Runner) -> None:
        """Look for the best checkpoints in this run's folder."""
        super().before_train(runner)
        if getattr(self, 'best_ckpt_path', None):
            self.best_ckpt_path = self._here(self.best_ckpt_path)
        paths = getattr(self, 'best_ckpt_path_dict', {})
        paths.update({key: self._here(path)
                      for key, path in paths.items() if path})

    def after_val_epoch(self, runner: Runner, metrics: dict) -> None:
        """Save the best checkpoint, but not outside of training."""
        if runner.iter:
            super().after_val_epoch(runner, metrics)

    def _here(self, path: str) -> str:
        return self.file_backend.join_path(self.out_dir,
                                           os.path.basename(path))

    def _save_checkpoint_with_step(self, runner: Runner, step: int,
                                   meta: dict) -> None:
        broken = impossible(unwrap(runner.model).state_dict())
        if broken:
            raise UserError(
                f'{len(broken)} tensors of the model are NaN or infinite '
                f'after iteration {meta["iter"]} ({few(broken)}) and are not '
                'written: lower optim_wrapper.optimizer.lr, set '
                'optim_wrapper.clip_grad or use --no-amp; '
                f'{say_last_good(self.out_dir)}')
        with self._writing():
            super()._save_checkpoint_with_step(runner, step, meta)

    def _save_best_checkpoint(self, runner: Runner, metrics: dict) -> None:
        with self._writing():
            super()._save_best_checkpoint(runner, metrics)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Name the folder if it cannot be written."""
        try:
            yield
        except OSError as error:
            raise UserError(
                f"no checkpoint could be written to '{self.out_dir}' "
                f'({error.strerror or error}); earlier ones are kept. Free '
                'space or set --work-dir, then use --resume') from error
