# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Resuming that finds a whole checkpoint and says what is not right."""
import os.path as osp
from collections.abc import Callable

from mmengine.dist import all_gather_object
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import BaseLoop, Runner

from ...errors import UserError
from ..resuming import find_checkpoint_to_resume, require_resumable


@HOOKS.register_module()
class ResumeHook(Hook):
    """Resume from a whole checkpoint of a training run, or say why not.

    mmengine's ``resume=True`` trusts the file ``last_checkpoint``, which may
    be empty after a crash, name a folder that was moved or a checkpoint that
    was cut; and it goes on in silence without parts of the state.
    """

    # Before the hooks that ask from which checkpoint the run starts.
    priority = 'VERY_HIGH'

    def before_run(self, runner: Runner) -> None:
        """Find the checkpoint where none was named.

        Raises:
            UserError: If there are checkpoints, of which none is whole, or if
                not all processes see the same.
        """
        if not is_about_to_train(runner) or runner._has_loaded:
            return
        if runner._resume and runner._load_from is None:
            runner._load_from = find_checkpoint_to_resume(runner.work_dir)
        _require_same(runner, (runner._resume, osp.basename(
            runner._load_from or '')), _say_start)
        if not runner._resume:
            return
        if runner._load_from is None:
            runner.logger.warning(
                f"nothing to resume in '{runner.work_dir}': training starts "
                'from the beginning')
            return
        runner.resume = _Resume(runner)

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Check a checkpoint before mmengine takes the run's state from it.

        Raises:
            UserError: If the run cannot go on from it, or if it is another
                for another process.
        """
        if getattr(runner.resume, 'is_running', False):
            require_resumable(runner, runner._load_from, checkpoint)
            meta = checkpoint['meta']
            _require_same(runner, (meta['epoch'], meta['iter']), _say_progress)


class _Resume:
    """The runner's ``resume``, ending in one line where it fails."""

    def __init__(self, runner: Runner) -> None:
        self.resume = runner.resume
        self.is_running = False

    def __call__(self, filename: str, *args, **kwargs) -> None:
        self.is_running = True
        try:
            self.resume(filename, *args, **kwargs)
        except (UserError, FileNotFoundError):
            raise
        # A foreign state can break mmengine and torch anywhere.
        except Exception as error:
            raise UserError(
                f"checkpoint '{filename}' cannot be resumed "
                f'({type(error).__name__}: {str(error).strip()[:200]}): it is '
                'of another configuration or damaged; give another with '
                '--resume FILE, or start from its weights alone with '
                'load_from=FILE and without --resume') from error
        finally:
            self.is_running = False


def _require_same(runner: Runner, mine: tuple, say: Callable) -> None:
    """Raise unless all processes begin alike.

    Each reads its own disk; gradients of networks that differ are averaged
    in silence, and the first process's checkpoint looks right.
    """
    found = all_gather_object(mine)
    other = next((i for i, theirs in enumerate(found) if theirs != found[0]),
                 None)
    if other is not None:
        raise UserError(
            f"process 0 of this run {say(*found[0])}, and process {other} "
            f"{say(*found[other])}: give a work folder that all machines "
            f"share (--work-dir, here '{runner.work_dir}'), or put the same "
            'checkpoint on each')


def _say_start(resume: bool, name: str) -> str:
    if not name:
        return 'finds no checkpoint'
    return f"{'goes on' if resume else 'begins'} from '{name}'"


def _say_progress(epoch: int, iteration: int) -> str:
    return f'has its checkpoint of epoch {epoch}, iteration {iteration}'


def is_about_to_train(runner: Runner) -> bool:
    """Whether ``before_run`` was called by a run that is going to train.

    ``Runner.train`` builds its loop before; ``test`` and ``val`` do not.
    """
    return isinstance(runner._train_loop, BaseLoop)
