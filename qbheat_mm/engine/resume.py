# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Find the checkpoint to resume from, and check that it can be resumed."""
from collections.abc import Mapping

from mmengine.logging import print_log
from mmengine.runner import IterBasedTrainLoop, Runner

from ..errors import UserError
from .checkpoint import checkpoints_in, few, impossible, read, weights

#: What decides the length of a schedule. Its ``end`` follows the run.
_LENGTHS = ('begin', 'total_iters', 'total_steps', 'T_max', 'milestones',
            'step_size', 'periods')


def newest_readable(work_dir: str) -> str | None:
    """The newest readable checkpoint of a run.

    Returns:
        str | None: None if there is no checkpoint.

    Raises:
        UserError: If none of the checkpoints is readable.
    """
    errors = []
    for path in checkpoints_in(work_dir):
        try:
            content = read(path)
            _require_state(path, content)
        except (UserError, FileNotFoundError) as error:
            errors.append(str(error))
            print_log(f'{error}; trying an earlier checkpoint', 'current',
                      30)
            continue
        return path
    if errors:
        raise UserError(f"no checkpoint in '{work_dir}' can be resumed: "
                        f'{errors[0]}')
    return None


def require_resumable(runner: Runner, path: str, checkpoint: Mapping) -> None:
    """Raise unless a checkpoint continues this run.

    mmengine goes on silently without an optimizer state or schedules, ends
    at once if the checkpoint lies beyond the end, and keeps the schedules of
    a run of another length.

    Args:
        runner (Runner): With its optimizer and schedulers built.
        path (str): The file, for messages.
        checkpoint (Mapping): Its content.

    Raises:
        UserError: Saying what is missing or differs.
    """
    _require_state(path, checkpoint)
    unit = 'iter' if isinstance(
        runner.train_loop, IterBasedTrainLoop) else 'epoch'
    done, end = checkpoint['meta'][unit], getattr(runner, f'max_{unit}s')
    if done > end:
        raise UserError(
            f"checkpoint '{path}' is at {unit} {done}, beyond the end of "
            f'this run: raise train_cfg.max_{unit}s={end}')
    given = runner.param_schedulers or []
    found = checkpoint.get('param_schedulers', [])
    pairs = zip(given, found) if isinstance(given, list) else (
        pair for name in given for pair in zip(given[name], found[name]))
    if len(given) != len(found):
        raise UserError(f"checkpoint '{path}' has {len(found)} "
                        f'param_schedulers, this config {len(given)}')
    for scheduler, state in pairs:
        ours = scheduler.state_dict()
        other = [f'{name}={state[name]}, not {ours[name]}'
                 for name in _LENGTHS if name in state and name in ours
                 and state[name] != ours[name]]
        if other:
            raise UserError(
                f"checkpoint '{path}' has a schedule of another length "
                f'({type(scheduler).__name__} {", ".join(other)}): keep '
                'train_cfg.max_epochs and the images per step, or start a '
                'new run with load_from=FILE and without --resume')
        if 'end' in ours:
            state['end'] = ours['end']


def _require_state(path: str, checkpoint: Mapping) -> None:
    """Raise unless a checkpoint has the state of a run, all finite."""
    meta = checkpoint.get('meta')
    missing = [name for name in ('optimizer', 'message_hub')
               if not isinstance(checkpoint.get(name), Mapping)]
    missing += [f'meta.{name}' for name in ('epoch', 'iter')
                if not isinstance(meta, Mapping)
                or not isinstance(meta.get(name), int)]
    if missing:
        raise UserError(
            f"checkpoint '{path}' cannot be resumed: it lacks "
            f'{", ".join(missing)}; use load_from=FILE without --resume to '
            'start from its weights')
    broken = impossible(weights(checkpoint)) + [
        f'optimizer state {name} of parameter {key}'
        for key, state in _states(checkpoint['optimizer'])
        for name in impossible(state)]
    if broken:
        raise UserError(f"checkpoint '{path}' holds NaN or infinite values "
                        f'({few(broken)}): resume from an earlier one')


def _states(optimizer: Mapping) -> list[tuple]:
    """Key and state of each parameter, of one or several optimizers."""
    if 'state' not in optimizer:
        return [item for each in optimizer.values()
                if isinstance(each, Mapping) for item in _states(each)]
    return [(key, state) for key, state in optimizer['state'].items()
            if isinstance(state, Mapping)]
