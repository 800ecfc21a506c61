# Copyright (c) QB-Heat MM authors. All rights reserved.
"""From which checkpoint a run goes on, and whether it can."""
import logging
import math
import numbers
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.logging import print_log
from mmengine.optim import OptimWrapper
from mmengine.runner import IterBasedTrainLoop, Runner
from torch import Tensor

from ..compat import load_checkpoint
from ..errors import UserError
from .weights import impossible, named_weights, require_possible, unlike

_WAY_OUT = ('give a checkpoint that training has written, as epoch_N.pth, or '
            'start from its weights alone with load_from=FILE and without '
            '--resume')
#: States of optimizers of which each weight has one value; others may be
#: factored, as those of Adafactor.
_ELEMENTWISE = frozenset((
    'acc_delta', 'ax', 'exp_avg', 'exp_avg_diff', 'exp_avg_sq', 'exp_inf',
    'grad_avg', 'max_exp_avg_sq', 'momentum_buffer', 'prev', 'square_avg',
    'step_size', 'sum'))
# Where schedules begin and change. Those that need their end have it in
# total_iters or T_max, for others it is that of the run.
_PLACES = ('begin', 'total_iters', 'total_steps', 'T_max', 'milestones',
           'step_size', 'periods')
# What mmengine's hooks read from the log of a run that is resumed.
_LOGGED = dict(best_score=0., best_ckpt='', last_ckpt='', keep_ckpt_ids=[0])


def find_checkpoint_to_resume(work_dir: str) -> str | None:
    """The checkpoint from which a run in a work folder goes on.

    That is the one that ``last_checkpoint`` names, looked for in this folder,
    which may have been moved or copied. If it is gone or damaged, as after a
    crash or on a full disk, it is the newest that is whole, and a warning
    says so. What is named in another folder comes after all that are here.

    Args:
        work_dir (str): Folder with ``last_checkpoint`` and checkpoints.

    Returns:
        str | None: None if there is no checkpoint at all.

    Raises:
        UserError: If there are checkpoints and none is whole.
    """
    named = _named_checkpoint(work_dir)
    candidates = _candidates(work_dir, named)
    reasons = []
    for path in candidates:
        try:
            checkpoint = load_checkpoint(path, map_location='cpu')
            _progress(path, checkpoint)
            require_possible(named_weights(checkpoint), path)
        except (UserError, FileNotFoundError) as error:
            reasons.append(str(error))
            continue
        if path != named:
            pointer = os.path.join(work_dir, 'last_checkpoint')
            passed_over = '; '.join(reasons) or (
                f"'{pointer}' names "
                + (f"'{named}', which is not here" if named
                   else 'no checkpoint'))
            print_log(f'{passed_over}: going on from {path}, the newest '
                      'checkpoint that is whole', 'current', logging.WARNING)
        return path
    if reasons:
        raise UserError(
            f"none of the {len(candidates)} checkpoints in '{work_dir}' can "
            f'be resumed ({reasons[0]}); name another with --resume FILE or '
            'start anew in another --work-dir')
    return None


def latest_checkpoint(work_dir: str) -> str | None:
    """The checkpoint that a run has written last, unread.

    It is looked for in this folder first, which may have been moved or
    copied, so that ``last_checkpoint`` names another place.

    Args:
        work_dir (str): Folder with ``last_checkpoint`` and checkpoints.

    Returns:
        str | None: None if there is no checkpoint at all.
    """
    candidates = _candidates(work_dir, _named_checkpoint(work_dir))
    return next(filter(os.path.isfile, candidates), None)


def require_resumable(runner: Runner, path: str, checkpoint: Mapping) -> None:
    """Raise unless a run can go on from a checkpoint as if never stopped.

    mmengine goes on without the optimizer's state or schedules that are
    absent, and ends at once where the checkpoint lies beyond the end.

    Args:
        runner (Runner): With its model, optimizer and schedules built.
        path (str): The file, for messages.
        checkpoint (Mapping): As loaded.

    Raises:
        UserError: Saying what is absent or does not fit.
    """
    epoch, iteration = _progress(path, checkpoint)
    by_epoch = not isinstance(runner.train_loop, IterBasedTrainLoop)
    unit, done, end = (('epoch', epoch, runner.max_epochs) if by_epoch else
                       ('iter', iteration, runner.max_iters))
    if done > end:
        raise UserError(
            f"checkpoint '{path}' is of {unit} {done}, beyond the end of this "
            f'run: set train_cfg.max_{unit}s to more than its {end}, or give '
            'an earlier checkpoint')
    for part, name in (('message_hub', 'log of the run'),
                       ('optimizer', 'state of the optimizer')):
        if not isinstance(checkpoint.get(part), Mapping):
            raise _not_resumable(path, f'it lacks the {name} ({part})')
    info = checkpoint['message_hub'].get('runtime_info')
    if isinstance(info, Mapping):
        _require_alike(path, 'log', info, _LOGGED)
    _require_schedulers(runner.param_schedulers, path, checkpoint)
    if isinstance(runner.optim_wrapper, OptimWrapper):
        _require_optimizer(runner.optim_wrapper, path, checkpoint['optimizer'])
        _tell_kept(runner.optim_wrapper, path, checkpoint['optimizer'])


def _named_checkpoint(work_dir: str) -> str | None:
    """What ``last_checkpoint`` names, here or else where it says."""
    pointer = Path(work_dir, 'last_checkpoint')
    try:
        name = pointer.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None
    here = Path(work_dir, os.path.basename(name))
    return (str(here) if here.is_file() else name) if name else None


def _candidates(work_dir: str, named: str | None) -> list[str]:
    """The named checkpoint, then the others of the folder, newest first.

    Those beyond the named one, as of a longer run before, come last, and one
    that is named elsewhere, as by the run that a folder was copied from,
    behind all that are here.
    """
    limit = _step(named or '')
    limit = float('inf') if limit is None else limit
    others = sorted(
        (str(path) for path in Path(work_dir).glob('*.pth')
         if _step(path) is not None and str(path) != named),
        key=lambda path: (_step(path) <= limit, _step(path)),
        reverse=True)
    if not named:
        return others
    is_here = os.path.dirname(os.path.abspath(named)) == os.path.abspath(
        work_dir)
    return [named, *others] if is_here else [*others, named]


def _step(path: str | Path) -> int | None:
    """Epoch or iteration in the name of a checkpoint of a run."""
    match = re.fullmatch(r'(?:epoch|iter)_(\d+)\.pth', os.path.basename(path))
    return int(match[1]) if match else None


def _progress(path: str, checkpoint: Mapping) -> tuple[int, int]:
    """Epoch and iteration of a checkpoint of training."""
    meta = checkpoint.get('meta')
    numbers = [meta.get(key) if isinstance(meta, Mapping) else None
               for key in ('epoch', 'iter')]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise _not_resumable(path, 'it does not say how far training has got '
                             '(meta.epoch, meta.iter)')
    return tuple(numbers)


def _require_schedulers(schedulers: Any, path: str,
                        checkpoint: Mapping) -> None:
    """Raise unless each schedule of the run has its state in the file."""
    needed = schedulers if isinstance(schedulers, dict) else {
        '': schedulers or []}
    found = checkpoint.get('param_schedulers', [])
    found = found if isinstance(found, dict) else {'': found}
    for name, parts in needed.items():
        states = found.get(name)
        if not isinstance(states, list) or len(states) != len(parts):
            count = len(states) if isinstance(states, list) else 0
            raise _not_resumable(
                path, f'it holds {count} schedules (param_schedulers) and '
                f'this configuration has {len(parts)}')
        for i, (part, state) in enumerate(zip(parts, states)):
            ours = part.state_dict()
            # Versions of mmengine differ in `verbose` alone.
            if not isinstance(state, dict) or (set(state) ^ set(ours)) - {
                    'verbose'}:
                raise _not_resumable(
                    path, f'its schedule {i} is no state of a '
                    f'{type(part).__name__}, as this configuration has there')
            _require_alike(path, f'schedule {i}', state, ours)
            _require_same_places(type(part).__name__, path, state, ours)
            if 'end' in ours:
                state['end'] = ours['end']


def _require_same_places(name: str, path: str, found: Mapping,
                         needed: Mapping) -> None:
    """Raise where a schedule was laid out for a run of another length.

    mmengine takes its places from the checkpoint: where steps have become
    fewer or more, as with another number of processes, the rate would stay
    high or be at its end long before the run is.
    """
    other = [f'{place}={found[place]} and not {needed[place]}'
             for place in _PLACES if place in found and place in needed
             and found[place] != needed[place]]
    if other:
        raise UserError(
            f"checkpoint '{path}' is of a run whose schedule, {name}, has "
            f'{", ".join(other)}, in steps or epochs: go on with as many '
            'epochs (train_cfg.max_epochs) and images a step (processes x '
            'train_dataloader.batch_size) as there, or begin a new run with '
            'its weights, by load_from=FILE and without --resume')


def _tell_kept(wrapper: OptimWrapper, path: str, found: Mapping) -> None:
    """Warn of settings of the optimizer that the checkpoint replaces."""
    kept = {}
    for theirs, ours in zip(found['param_groups'],
                            wrapper.optimizer.param_groups):
        for name in (set(theirs) & set(ours)) - {'params', 'lr'}:
            # each schedule keeps the value that it began with
            setting = name.removeprefix('initial_')
            if theirs[name] != ours[name]:
                kept.setdefault(setting, (theirs[name], ours[name]))
    if kept:
        told = ', '.join(f'{name}={theirs} and not {ours}'
                         for name, (theirs, ours) in sorted(kept.items()))
        print_log(f"the optimizer goes on as in '{path}', with {told} of this "
                  'configuration; for others begin a new run with its '
                  'weights, by load_from=FILE and without --resume',
                  'current', logging.WARNING)


def _require_optimizer(wrapper: OptimWrapper, path: str,
                       found: Mapping) -> None:
    """Raise unless the state in the file is one of the run's optimizer."""
    groups, state = found.get('param_groups'), found.get('state')
    needed = wrapper.optimizer.param_groups
    try:
        sizes = [len(group['params']) for group in groups]
        states = [dict(state.get(number, {}))
                  for group in groups for number in group['params']]
    except (TypeError, KeyError, AttributeError, ValueError):
        sizes = None
    if sizes != [len(group['params']) for group in needed]:
        raise _not_resumable(path, 'the state of its optimizer is of other '
                             'parameters than this model trains')
    for group, ours in zip(groups, needed):
        _require_alike(path, 'optimizer', group, dict(ours, params=None),
                       required=('lr', ))
    if not state and any(group.get('betas') or group.get('momentum')
                         for group in needed):
        raise _not_resumable(path, 'the state of its optimizer is empty')
    parameters = [(p, bool(group.get('momentum')))
                  for group in needed for p in group['params']]
    for values, (parameter, has_momentum) in zip(states, parameters):
        for name, value in values.items():
            if value is None and not has_momentum:
                continue  # as older versions of torch's SGD write
            _require_state(path, name, value, parameter)


def _require_state(path: str, name: str, value: Any,
                   parameter: Tensor) -> None:
    """Raise unless an optimizer can go on with a state of a parameter."""
    if name == 'step' and isinstance(value, int | float):
        value = torch.tensor(float(value))
    is_step = name == 'step' and isinstance(value, Tensor) and value.dim() == 0
    if unlike(value, torch.zeros(()) if is_step else parameter) is not None:
        raise _not_resumable(path, f'the state {name} of its optimizer is of '
                             'another kind than the weights')
    if name in _ELEMENTWISE and value.shape != parameter.shape:
        raise _not_resumable(path, f'the state {name} of its optimizer has '
                             'other shapes than the weights')
    if impossible({name: value}):
        raise UserError(
            f"checkpoint '{path}' holds NaN or infinite values in the state "
            f'{name} of its optimizer: the run diverged; take an earlier '
            'checkpoint')


def _require_alike(path: str, part: str, found: Mapping, needed: Mapping,
                   required: Iterable[str] = ()) -> None:
    """Raise unless values of a file are of the types of the run's.

    Args:
        path (str): The file.
        part (str): What the values belong to, for the message.
        found (Mapping): Names and values of the file.
        needed (Mapping): Those of the run, or examples of them.
        required (Iterable[str]): Names that must be there.
    """
    for name in required:
        if name not in found:
            raise _not_resumable(path, f'its {part} lacks {name}')
    for name, value in found.items():
        if name in needed and not _is_alike(value, needed[name]):
            raise _not_resumable(path, f'its {part} holds {name}='
                                 f'{str(value)[:40]!r}')


def _is_alike(value: Any, example: Any) -> bool:
    if example is None:
        return True
    if isinstance(example, numbers.Real):
        # An unset best value is infinite.
        return isinstance(value, numbers.Real) and (
            math.isfinite(value) or not math.isfinite(example))
    if isinstance(example, list | tuple):
        return isinstance(value, list | tuple) and all(
            _is_alike(item, example[0]) for item in value if example)
    return isinstance(value, type(example))


def _not_resumable(path: str, reason: str) -> UserError:
    return UserError(f"checkpoint '{path}' cannot be resumed: {reason}; "
                     f'{_WAY_OUT}')
