# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Resume from the newest readable checkpoint."""
import logging
import os.path as osp
from collections.abc import Mapping

from mmengine.dist import all_gather_object
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.registry import HOOKS
from mmengine.runner import IterBasedTrainLoop, Runner

from ..errors import UserError
from ..trained.checkpoint import Checkpoint
from .run_state import RunState, checkpoints_in

#: Attributes that decide the length of a schedule. Its ``end`` may change.
_LENGTHS = ('begin', 'total_iters', 'total_steps', 'T_max', 'milestones',
            'step_size', 'periods')


def newest_readable(work_dir: str) -> str | None:
    """The newest readable checkpoint of a run, or None if it has none.

    Raises:
        UserError: If no checkpoint is readable.
    """
    errors = []
    for path in checkpoints_in(work_dir):
        try:
            _require_state(path, Checkpoint.read(path).content)
        except (UserError, FileNotFoundError) as error:
            errors.append(str(error))
            print_log(f'{error}; trying an earlier checkpoint', 'current',
                      logging.WARNING)
        else:
            return path
    if errors:
        raise UserError(f"no checkpoint in '{work_dir}' can be resumed: "
                        f'{errors[0]}')
    return None


@HOOKS.register_module()
class ResumeHook(Hook):
    """Refuse to resume from a checkpoint that doesn't continue the run.

    mmengine goes on silently without an optimizer state or schedules, stops
    at once if the checkpoint lies beyond the end, and keeps the schedules of
    a run of another length. If the processes found different checkpoints,
    gradients of different networks would be averaged.
    """

    # Before mmengine and other hooks use the checkpoint.
    priority = 'VERY_HIGH'

    def before_run(self, runner: Runner) -> None:
        """Raise UserError if the processes' checkpoints differ."""
        state = RunState.of(runner)
        if not state.is_training:
            return
        checkpoints = all_gather_object(osp.basename(state.load_from))
        if len(set(checkpoints)) > 1:
            raise UserError(
                'the processes start from different checkpoints '
                f'{checkpoints}: '
                f"share the work folder '{runner.work_dir}' between machines")

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Raise UserError if the checkpoint doesn't continue the run."""
        state = RunState.of(runner)
        if not state.resumes or not state.is_training:
            return
        path = state.load_from
        _require_state(path, checkpoint)
        unit = 'iter' if isinstance(
            runner.train_loop, IterBasedTrainLoop) else 'epoch'
        done, end = checkpoint['meta'][unit], getattr(runner, f'max_{unit}s')
        if done > end:
            raise UserError(
                f"checkpoint '{path}' is at {unit} {done}, beyond the end of "
                f'this run: raise train_cfg.max_{unit}s={end}')
        if isinstance(runner.param_schedulers, list):
            _require_schedules(path, runner.param_schedulers,
                               checkpoint.get('param_schedulers') or [])


def _require_state(path: str, checkpoint: Mapping) -> None:
    """Raise unless a checkpoint contains the state of a run."""
    meta = checkpoint.get('meta')
    meta = meta if isinstance(meta, Mapping) else {}
    missing = []
    for name in ('optimizer', 'message_hub'):
        if not isinstance(checkpoint.get(name), Mapping):
            missing.append(name)
    for name in ('epoch', 'iter'):
        if not isinstance(meta.get(name), int):
            missing.append(f'meta.{name}')
    if missing:
        raise UserError(
            f"checkpoint '{path}' cannot be resumed: it lacks "
            f'{", ".join(missing)}; use load_from=FILE without --resume to '
            'start from its weights')


def _require_schedules(path: str, schedulers: list, states: list) -> None:
    """Raise unless saved schedules have the length of the run's own."""
    if len(schedulers) != len(states):
        raise UserError(f"checkpoint '{path}' has {len(states)} "
                        f'param_schedulers, this config {len(schedulers)}')
    for scheduler, state in zip(schedulers, states):
        own = scheduler.state_dict()
        others = []
        for name in _LENGTHS:
            if name in state and name in own and state[name] != own[name]:
                others.append(f'{name}={state[name]}, not {own[name]}')
        if others:
            raise UserError(
                f"checkpoint '{path}' has a schedule of another length "
                f'({type(scheduler).__name__} {", ".join(others)}): keep '
                'train_cfg.max_epochs and the images per step, or start a '
                'new run with load_from=FILE and without --resume')
        if 'end' in own:
            state['end'] = own['end']
