# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Shorten learning-rate schedules that are longer than the run."""
import copy
from collections.abc import Mapping, Sequence

from ..utils.settings import type_name

#: Settings in epochs, or in steps with ``by_epoch=False``.
_PLACES = ('begin', 'end', 'T_max')
#: mmengine's "until the end of the run".
_NEVER = 10**9


def fit_schedulers(schedulers: Sequence[Mapping], steps: int,
                   epoch_length: int) -> list[Mapping]:
    """Fit schedulers to a run; those that fit are returned unchanged.

    Milestones and annealing keep their proportions. A warm-up of more than
    half of the run is shortened to a tenth of it, and dropped if that is a
    single step; later schedulers start earlier.

    Args:
        schedulers (Sequence[Mapping]): mmengine's settings. A missing
            ``end`` is that of the run.
        steps (int): Length of the run.
        epoch_length (int): Steps in an epoch.

    Returns:
        list[Mapping]: Changed settings count steps.
    """
    parts = [_in_steps(given, epoch_length) for given in schedulers]
    before = copy.deepcopy(parts)
    planned = max((_length(part, steps) for part in parts
                   if not _is_warm_up(part)), default=0)
    if planned > steps:
        for given, part in zip(schedulers, parts):
            if given.get('by_epoch', True) or not _is_warm_up(part):
                _scale(part, steps / planned)
    for part in parts:
        if _is_warm_up(part):
            end = part['end'] if part['end'] <= steps / 2 else steps // 10
            # mmengine's warm-ups of one step never end.
            _move_end(parts, part, end if end >= 2 else 0)
    fitted = []
    for given, part, old in zip(schedulers, parts, before):
        if part.get('end') != 0:
            fitted.append(given if part == old else _rounded(part))
    return fitted


def _in_steps(given: Mapping, epoch_length: int) -> dict:
    part = dict(given)
    factor = epoch_length if part.pop('by_epoch', True) else 1
    part.pop('convert_to_iter_based', None)
    for name in _PLACES:
        if part.get(name) is None or part[name] >= _NEVER:
            part.pop(name, None)
    _scale(part, factor)
    return dict(part, by_epoch=False)


def _scale(part: dict, factor: float) -> None:
    for name in {*_PLACES} & {*part}:
        part[name] *= factor
    if part.get('milestones'):
        part['milestones'] = [
            milestone * factor for milestone in part['milestones']]


def _is_warm_up(part: Mapping) -> bool:
    """Whether a schedule starts below the learning rate, for a fixed time."""
    if part.get('begin') or 'end' not in part:
        return False
    if 'Constant' in type_name(part):
        return part.get('factor', 1 / 3) < 1
    return 'Linear' in type_name(part) and (
        part.get('start_factor', 1 / 3) < part.get('end_factor', 1))


def _length(part: Mapping, steps: int) -> float:
    """Length of the run that a schedule was written for; 0 if unknown."""
    if 'end' in part:
        return part['end']
    last = max(part.get('milestones') or [0])
    if last >= steps:
        return last / 0.9  # like mmdet's [8, 11] of 12 epochs
    return part.get('begin', 0) + part['T_max'] if 'T_max' in part else 0


def _move_end(parts: Sequence[dict], warm_up: dict, end: int) -> None:
    """End a warm-up earlier, and start later schedulers there."""
    old = warm_up['end']
    for part in parts:
        if part is not warm_up and 0 < part.get('begin', 0) == old:
            if 'T_max' in part:
                part['T_max'] += old - end
            part['begin'] = end
    warm_up['end'] = end


def _rounded(part: dict) -> dict:
    # Round down: a schedule must not end after the run.
    for name in {*_PLACES} & {*part}:
        part[name] = int(part[name] + 1e-6)
    if 'end' in part:
        part['end'] = max(part['end'], part.get('begin', 0) + 1)
    if 'T_max' in part:
        part['T_max'] = max(part['T_max'], 1)
    if part.get('milestones'):
        part['milestones'] = sorted({max(1, int(milestone + 1e-6))
                                     for milestone in part['milestones']})
    return part
