# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Shorten learning-rate schedules that are longer than the run."""
from collections.abc import Mapping, Sequence

from ..errors import UserError
from ..utils.settings import type_name

#: Settings in epochs, or in steps with ``by_epoch=False``.
_PLACES = ('begin', 'end', 'T_max')
#: What mmengine takes for "until the end of the run".
_NEVER = 10**9
#: Share of the run for a warm-up that doesn't fit.
_WARM_UP = 0.1
_ANNEALING = ('Linear', 'CosineAnnealing', 'Poly')


def fit_schedulers(schedulers: Sequence[Mapping], steps: int,
                   epoch_length: int) -> list[Mapping]:
    """Fit schedulers to a run; those that fit are returned as they are.

    Milestones and annealing keep their proportions. A warm-up of more than
    half of the run gets a tenth of it, or is dropped if that is a single
    step; what follows it begins earlier.

    Args:
        schedulers (Sequence[Mapping]): mmengine's settings. A missing
            ``end`` is that of the run.
        steps (int): Length of the run.
        epoch_length (int): Steps in an epoch.

    Returns:
        list[Mapping]: New settings count steps.
    """
    parts = [_in_steps(given, epoch_length) for given in schedulers]
    main = [part for part in parts if not _is_warm_up(part)]
    lengths = [_length(part) for part in main]
    if main and None not in lengths and any(
            _is_cut(part, steps) for part in main):
        ratio = steps / max(lengths)
        for given, part in zip(schedulers, parts):
            if given.get('by_epoch', True) or not _is_warm_up(part):
                _scale(part, ratio)
    dropped = []
    for part in parts:
        if _is_warm_up(part) and (
                part['end'] > steps / 2 and (
                    len(parts) > 1 or part['end'] > steps)):
            _move(parts, part, int(steps * _WARM_UP))
        # mmengine's warm-ups reach their end with the second step or never.
        if _is_warm_up(part) and int(part['end'] + 1e-6) < 2:
            _move(parts, part, 0)
            dropped.append(part)
    fitted = []
    for given, part in zip(schedulers, parts):
        by_few_epochs = _is_warm_up(part) and (
            given.get('by_epoch', True) and given['end'] < 2
            and not given.get('convert_to_iter_based'))
        if part == _in_steps(given, epoch_length) and not by_few_epochs:
            part = given
        if not any(part is one for one in dropped):
            fitted.append(part if part is given else _rounded(part))
    return fitted


def require_steps(schedulers: Sequence[Mapping]) -> None:
    """Refuse schedules in epochs for a run without epochs.

    mmengine counts such a run as one epoch: the rate would never change.

    Raises:
        UserError: For the first of them.
    """
    for i, scheduler in enumerate(schedulers):
        if scheduler.get('by_epoch', True) and not (
                scheduler.get('convert_to_iter_based')
                and {'end', 'T_max', 'milestones', 'step_size'} & {
                    *scheduler}):
            raise UserError(
                f'param_scheduler.{i} ({type_name(scheduler)}) counts '
                'epochs, and IterBasedTrainLoop has none: set by_epoch=False '
                'and its length in steps')


def _in_steps(given: Mapping, epoch_length: int) -> dict:
    part = dict(given)
    factor = epoch_length if part.get('by_epoch', True) else 1
    for name in _PLACES:
        if part.get(name, _NEVER) is None or part.get(name, _NEVER) >= _NEVER:
            part.pop(name, None)
        else:
            part[name] *= factor
    if part.get('milestones'):
        part['milestones'] = [one * factor for one in part['milestones']]
    part['by_epoch'] = False
    part.pop('convert_to_iter_based', None)
    return part


def _is_warm_up(part: Mapping) -> bool:
    """Whether a schedule starts below the learning rate, up to a fixed step.
    """
    if part.get('begin') or 'end' not in part:
        return False
    if 'Constant' in type_name(part):
        return part.get('factor', 1 / 3) < 1
    return 'Linear' in type_name(part) and (
        part.get('start_factor', 1 / 3) < part.get('end_factor', 1))


def _length(part: Mapping) -> float | None:
    """Where a schedule ends by its own settings; None if with the run."""
    if 'end' in part:
        return part['end']
    if 'T_max' in part:
        return part.get('begin', 0) + part['T_max']
    if part.get('milestones'):
        # Like mmdet's [8, 11] of 12 epochs.
        return max(part['milestones']) / 0.9
    return None


def _is_cut(part: Mapping, steps: int) -> bool:
    """Whether a schedule would do something after the run."""
    annealing = any(kind in type_name(part) for kind in _ANNEALING)
    return part.get('begin', 0) >= steps or (
        annealing and _length(part) > steps) or any(
            one >= steps for one in part.get('milestones') or ())


def _scale(part: dict, ratio: float) -> None:
    for name in {*_PLACES} & {*part}:
        part[name] *= ratio
    if part.get('milestones'):
        part['milestones'] = [one * ratio for one in part['milestones']]


def _move(parts: Sequence[dict], warm_up: dict, end: float) -> None:
    """End a warm-up elsewhere, and begin what follows it there."""
    old = warm_up['end']
    for part in parts:
        if part is not warm_up and 0 < part.get('begin', 0) == old:
            if 'T_max' in part:
                part['T_max'] += old - end
            part['begin'] = end
    warm_up['end'] = end


def _rounded(part: dict) -> dict:
    # Down, so that what ends with the run doesn't end later.
    for name in {*_PLACES} & {*part}:
        part[name] = int(part[name] + 1e-6)
    if 'end' in part:
        part['end'] = max(part['end'], part.get('begin', 0) + 1)
    if 'T_max' in part:
        part['T_max'] = max(part['T_max'], 1)
    if part.get('milestones'):
        part['milestones'] = sorted(
            {max(1, int(one + 1e-6)) for one in part['milestones']})
    return part
