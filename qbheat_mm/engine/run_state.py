# Copyright (c) QB-Heat MM authors. All rights reserved.
"""How a run starts."""
from typing import NamedTuple

from mmengine.optim import OptimWrapper
from mmengine.runner import Runner


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
