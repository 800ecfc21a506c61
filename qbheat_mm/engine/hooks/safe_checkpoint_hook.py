# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Checkpoints that a kill, a full disk or a move does not cost."""
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mmengine
from mmengine.dist import broadcast_object_list, is_main_process
from mmengine.fileio import LocalBackend, register_backend
from mmengine.hooks import CheckpointHook
from mmengine.registry import HOOKS
from mmengine.runner import IterBasedTrainLoop, Runner

from ...errors import UserError
from ..weights import few, impossible
from ..wrapping import unwrap
from .non_finite_loss_hook import say_last_good

# Beside the checkpoints: the iteration after which was evaluated last.
_EVALUATED = 'last_evaluation'


class WholeFileBackend(LocalBackend):
    """Local files that are there whole or not at all."""

    def put(self, obj: bytes, filepath: str | Path) -> None:
        """Write a file under another name and then rename it."""
        mmengine.mkdir_or_exist(os.path.dirname(filepath))
        part = f'{filepath}.part'
        try:
            with open(part, 'wb') as file:
                file.write(obj)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, filepath)
        except OSError:
            Path(part).unlink(missing_ok=True)
            raise


register_backend(WholeFileBackend.__name__, WholeFileBackend, force=True)


@HOOKS.register_module()
class SafeCheckpointHook(CheckpointHook):
    """mmengine's hook, with these differences.

    - A checkpoint appears under its name when it is whole, and the ones that
      it replaces, last or best, are removed after that. mmengine removes
      them first, so that a kill or a full disk can cost all.
    - A run that was stopped between the checkpoint of an epoch and the end of
      its evaluation makes up for the evaluation when it is resumed.
    - In a work folder that was copied or moved it leaves the best checkpoint
      of the other folder alone.
    - A disk that cannot be written ends in one line.
    - Weights that are NaN or infinite are not written, and cost no good ones.
      A step can ruin them after a loss that was finite, or by gradients of
      another process.

    Args:
        args, kwargs: Those of :class:`mmengine.hooks.CheckpointHook`. A
            storage of one's own (``backend_args``) is left as it is.
    """

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        if (self.backend_args is None and self.file_client_args is None
                and '://' not in str(self.out_dir)):
            self.backend_args = dict(backend=WholeFileBackend.__name__)

    def before_train(self, runner: Runner) -> None:
        """Find the best checkpoint here; evaluate what has not been."""
        super().before_train(runner)
        if self.by_epoch and isinstance(runner.train_loop, IterBasedTrainLoop):
            runner.logger.warning(
                'checkpoints are written by epochs, and IterBasedTrainLoop is '
                'one epoch: the only one comes at the end; set --cfg-options '
                'default_hooks.checkpoint.by_epoch=False '
                'default_hooks.checkpoint.interval=STEPS')
        if self.save_best:
            self._look_here()
        marker = Path(runner.work_dir, _EVALUATED)
        if runner.iter == 0:
            if is_main_process():
                marker.unlink(missing_ok=True)
        elif self._is_evaluation_due(runner) and not self._is_evaluated(
                runner):
            runner.logger.info(
                f'The run was stopped before epoch {runner.epoch} (iteration '
                f'{runner.iter}) was evaluated: evaluating it now')
            # So that the new best score enters the last checkpoint, too.
            self.last_ckpt = self._here(runner._load_from or '')
            runner.val_loop.run()

    def after_val_epoch(self, runner: Runner, metrics: dict) -> None:
        """Save the best checkpoint, and note that this epoch is evaluated."""
        if not runner.iter:
            return  # an evaluation alone, with no training around it
        super().after_val_epoch(runner, metrics)
        if is_main_process():
            with _explained(runner.work_dir):
                Path(runner.work_dir, _EVALUATED).write_text(str(runner.iter))

    def _save_checkpoint_with_step(self, runner: Runner, step: int,
                                   meta: dict) -> None:
        _require_possible(runner, meta['iter'], self.out_dir)
        with self._removing_last(), _explained(self.out_dir):
            super()._save_checkpoint_with_step(runner, step, meta)

    def _save_best_checkpoint(self, runner: Runner, metrics: dict) -> None:
        with self._removing_last(), _explained(self.out_dir):
            super()._save_best_checkpoint(runner, metrics)

    @contextmanager
    def _removing_last(self) -> Iterator[None]:
        """Put off removing files until the block has come to its end."""
        backend = self.file_backend
        later = _RemoveLater(backend)
        self.file_backend = later
        try:
            yield
        finally:
            self.file_backend = backend
        later.remove_all(keep={self.last_ckpt, *self._best()})

    def _best(self) -> list[str]:
        """Paths of the best checkpoints."""
        if not self.save_best:
            return []
        paths = getattr(self, 'best_ckpt_path_dict', {}).values()
        return [path for path in (*paths, getattr(
            self, 'best_ckpt_path', None)) if path]

    def _look_here(self) -> None:
        """Take the best checkpoints to be in this run's folder."""
        if getattr(self, 'best_ckpt_path', None):
            self.best_ckpt_path = self._here(self.best_ckpt_path)
        paths = getattr(self, 'best_ckpt_path_dict', {})
        paths.update({key: self._here(path)
                      for key, path in paths.items() if path})

    def _here(self, path: str) -> str:
        return self.file_backend.join_path(self.out_dir,
                                           os.path.basename(path))

    def _is_evaluation_due(self, runner: Runner) -> bool:
        """Whether mmengine evaluates after the epoch that was resumed."""
        loop = runner.train_loop
        by_epoch = not isinstance(loop, IterBasedTrainLoop)
        if runner.val_loop is None or by_epoch != self.by_epoch:
            return False
        loop._decide_current_val_interval()
        done, end = ((runner.epoch, runner.max_epochs) if by_epoch else
                     (runner.iter, runner.max_iters))
        return done >= loop.val_begin and (done % loop.val_interval == 0
                                           or done == end)

    @staticmethod
    def _is_evaluated(runner: Runner) -> bool:
        """What the first process finds beside the checkpoint it resumed."""
        folder = os.path.dirname(runner._load_from or '') or runner.work_dir
        found = [_read(Path(folder, _EVALUATED)) == str(runner.iter)]
        broadcast_object_list(found)
        return found[0]


def _require_possible(runner: Runner, iteration: int, folder: str) -> None:
    """Raise if the weights that would be written are ruined."""
    broken = impossible(unwrap(runner.model).state_dict())
    if broken:
        raise UserError(
            f'{len(broken)} tensors of the model hold NaN or infinite values '
            f'after iteration {iteration} ({few(broken)}), which are not '
            'written: lower optim_wrapper.optimizer.lr, set '
            'optim_wrapper.clip_grad or train without AMP; '
            f'{say_last_good(folder)}')


class _RemoveLater:
    """A storage backend that removes nothing before it is told to.

    Args:
        backend (BaseStorageBackend): The real one.
    """

    def __init__(self, backend) -> None:
        self._backend = backend
        self._files: list[str] = []
        self._folders: list[str] = []

    def __getattr__(self, name: str):
        return getattr(self._backend, name)

    def remove(self, path: str) -> None:
        """Note a file."""
        self._files.append(path)

    def rmtree(self, path: str) -> None:
        """Note a folder."""
        self._folders.append(path)

    def remove_all(self, keep: set[str]) -> None:
        """Remove what was noted, but for what has been written anew."""
        for paths, remove in ((self._files, self._backend.remove),
                              (self._folders, self._backend.rmtree)):
            for path in paths:
                if path not in keep:
                    remove(path)


@contextmanager
def _explained(folder: str) -> Iterator[None]:
    """Tell in one line that a checkpoint could not be written."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"no checkpoint could be written to '{folder}' "
            f'({error.strerror or error}); those before it are kept: free '
            'space or mend the rights, or give another --work-dir, then go on '
            'with --resume') from error


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ''
