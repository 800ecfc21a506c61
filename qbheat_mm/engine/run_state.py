# Copyright (c) QB-Heat MM authors. All rights reserved.
"""How a run starts, and the checkpoints it has written."""
import os.path as osp
import re
from pathlib import Path
from typing import NamedTuple

from mmengine.optim import OptimWrapper
from mmengine.runner import Runner

from ..trained.checkpoint import Checkpoint


class RunState(NamedTuple):
    """How a run starts, which mmengine's runner keeps in private attributes.

    Attributes:
        resumes (bool): Whether the run continues another one.
        load_from (str): Checkpoint to load or resume, ``''`` for none.
        has_loaded (bool): Whether a checkpoint was loaded.
        is_training (bool): Whether ``before_run`` is called by
            ``Runner.train``. Unlike ``test`` and ``val``, it builds the
            optimizer first.
    """
    resumes: bool
    load_from: str
    has_loaded: bool
    is_training: bool

    @classmethod
    def of(cls, runner: Runner) -> 'RunState':
        """Read the state of a runner."""
        return cls(
            runner._resume, str(runner._load_from or ''), runner._has_loaded,
            isinstance(runner.optim_wrapper, OptimWrapper))


def latest(work_dir: str) -> str | None:
    """The checkpoint that a run wrote last, or None."""
    return next(iter(checkpoints_in(work_dir)), None)


def best(work_dir: str) -> str | None:
    """The checkpoint of a run's best evaluation, or None.

    It is of the run that wrote the last checkpoint, or that which this run
    resumed; earlier runs may have left their own.
    """
    last = latest(work_dir)
    found = [str(path) for path in Path(work_dir).glob('best_*.pth')]
    if last and found:
        run = Checkpoint.read(last)
        own = [path for path in found if _name(Checkpoint.read(path))
               == _name(run)]
        kept = osp.basename(run.best)
        found = own or [path for path in found if osp.basename(path) == kept]
    return max(found, key=osp.getmtime, default=None)


def _name(checkpoint: Checkpoint) -> str | None:
    return checkpoint.meta.get('experiment_name')


def checkpoints_in(work_dir: str) -> list[str]:
    """Checkpoints of a run, the one to resume first.

    That is the one ``last_checkpoint`` names, looked for in this folder,
    which may have been moved; then the others, newest first.
    """
    try:
        named = Path(work_dir, 'last_checkpoint').read_text().strip()
    except (OSError, UnicodeDecodeError):
        named = ''
    here = osp.join(work_dir, osp.basename(named))
    last = _step(here)

    def rank(path: str) -> tuple[bool, int]:
        # Later ones than the last belong to an older, longer run.
        step = _step(path)
        return step <= last or last < 0, step

    others = [str(path) for path in Path(work_dir).glob('*.pth')
              if _step(str(path)) >= 0 and str(path) != here]
    others.sort(key=rank, reverse=True)
    return [here, *others] if osp.isfile(here) else others


def _step(path: str) -> int:
    """Epoch or iteration in the name of a checkpoint, or -1."""
    match = re.fullmatch(r'(?:epoch|iter)_(\d+)\.pth', osp.basename(path))
    return int(match[1]) if match else -1
