# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Learning-rate schedules that end with the run, however short it is."""
from collections.abc import Mapping, Sequence

from ...errors import UserError
from ...utils.settings import type_name

#: What mmengine takes for "until the end of the run".
_NEVER = 10**9
#: Steps of a schedule are scaled in settings of these names.
_PLACES = ('begin', 'end', 'T_max')
#: Share of the run that a warm-up gets which does not fit into it.
_WARM_UP = 0.1
#: Schedulers whose shape a change of length keeps, by what their name holds.
_ANNEALING = ('LinearLR', 'LinearParam', 'LinearMomentum', 'CosineAnnealing',
              'Poly')
_CONSTANT = ('ConstantLR', 'ConstantParam', 'ConstantMomentum')
_STEPS = ('MultiStep', )


def fit_schedulers(schedulers: Sequence[Mapping], steps: int,
                   epoch_length: int) -> tuple[list[Mapping], list[str]]:
    """Shorten schedules that are longer than the run.

    Milestones, annealings and what follows them keep their share of the
    length that they were written for. A warm-up that takes more than half of
    the run gets a tenth of it, and what follows it begins there. What fits is
    left as it is: schedules of runs of their full length never change.

    Args:
        schedulers (Sequence[Mapping]): Settings of mmengine's schedulers, in
            epochs or, with ``by_epoch=False``, in steps. An ``end`` that is
            absent is that of the run.
        steps (int): Of the optimizer, in the whole run.
        epoch_length (int): Steps of an epoch.

    Returns:
        tuple[list[Mapping], list[str]]: The settings, those that were changed
        in steps, and what was changed, in words.

    Raises:
        UserError: If a scheduler would begin after the end of the run.
    """
    parts = [_Part(settings, steps, epoch_length) for settings in schedulers]
    _keep_proportions(parts, steps)
    _shorten_warm_ups(parts, steps)
    for i, part in enumerate(parts):
        if not part.dropped and part.begin >= min(part.last, steps):
            raise UserError(
                f'param_scheduler.{i} ({part.name}) begins at step '
                f'{part.begin:g}, and the run ends at step {steps}: set its '
                'begin and end, or train longer (train_cfg.max_epochs)')
    return ([part.fitted() for part in parts if not part.dropped],
            [part.change() for part in parts if part.changed])


class _Part:
    """One scheduler, its places counted in steps of the optimizer."""

    def __init__(self, settings: Mapping, steps: int,
                 epoch_length: int) -> None:
        self.settings = settings
        self.name = type_name(settings)
        self.by_epoch = settings.get('by_epoch', True)
        self.factor = epoch_length if self.by_epoch else 1
        # Whether mmengine lets this scheduler act in every step.
        self.each_step = (not self.by_epoch
                          or settings.get('convert_to_iter_based', False))
        self.steps = steps
        self.places = {
            name: settings[name] * self.factor
            for name in _PLACES
            if isinstance(settings.get(name), int | float)
            and settings[name] < _NEVER
        }
        self.milestones = [
            place * self.factor for place in settings.get('milestones') or ()
        ]
        self.changed = self.dropped = False

    def _is(self, kinds: Sequence[str]) -> bool:
        return any(kind in self.name for kind in kinds)

    @property
    def known(self) -> bool:
        return self._is(_ANNEALING + _CONSTANT + _STEPS)

    @property
    def begin(self) -> float:
        return self.places.get('begin', 0)

    @property
    def last(self) -> float:
        return self.places.get('end', self.steps)

    @property
    def length(self) -> float | None:
        """Where the schedule ends by its own settings; None: with the run."""
        if 'end' in self.places:
            return self.places['end']
        if 'T_max' in self.places:
            return self.begin + self.places['T_max']
        if self.milestones:
            # As far behind the last step as mmdet's schedules.
            return max(self.milestones) / 0.9
        return None

    @property
    def warm_up(self) -> bool:
        """Whether it starts below the learning rate, up to a fixed place."""
        if self.begin or 'end' not in self.places:
            return False
        start = self.settings.get(
            'factor' if self._is(_CONSTANT) else 'start_factor', 1 / 3)
        end = 1 if self._is(_CONSTANT) else self.settings.get('end_factor', 1)
        return (self._is(_CONSTANT) or 'Linear' in self.name) and start < end

    @property
    def too_long(self) -> bool:
        """Whether a part of it lies behind the end of the run."""
        if any(place >= self.steps for place in self.milestones):
            return True
        if self._is(_ANNEALING) and self.length is not None:
            return self.length > self.steps
        return self.begin >= self.steps and self.length is not None

    def scale(self, ratio: float) -> None:
        self.places = {name: place * ratio
                       for name, place in self.places.items()}
        self.milestones = [place * ratio for place in self.milestones]
        self.changed = True

    def fitted(self) -> Mapping:
        """Settings for mmengine: the given ones, if they fitted."""
        if not self.changed:
            return self.settings
        new = {name: value for name, value in self.settings.items()
               if name != 'convert_to_iter_based'}
        new['by_epoch'] = False
        # Rounded down, so that what ends with the run does not end later.
        new.update({name: int(place + 1e-6)
                    for name, place in self.places.items()})
        if 'end' in new:
            new['end'] = max(new['end'], new.get('begin', 0) + 1)
        if 'T_max' in new:
            new['T_max'] = max(new['T_max'], 1)
        if self.milestones:
            new['milestones'] = sorted(
                {max(1, int(place + 1e-6)) for place in self.milestones})
        return new

    def change(self) -> str:
        """What was changed, as ``CosineAnnealingLR: begin=3``."""
        if self.dropped:
            return f'{self.name} left out'
        new = self.fitted()
        return f'{self.name} ' + ' '.join(
            f'{name}={new[name]}' for name in (*_PLACES, 'milestones')
            if name in new)


def _keep_proportions(parts: Sequence[_Part], steps: int) -> None:
    """Scale schedules that were written for a longer run, as a whole."""
    main = [part for part in parts if not part.warm_up and part.known]
    lengths = [part.length for part in main]
    if not main or None in lengths or max(lengths) <= steps:
        return
    if not any(part.too_long for part in main):
        return
    ratio = steps / max(lengths)
    units = {part.by_epoch for part in main}
    for part in parts:
        # A warm-up in steps hangs on no number of epochs.
        if part in main or (part.warm_up and part.by_epoch in units):
            part.scale(ratio)


def _shorten_warm_ups(parts: Sequence[_Part], steps: int) -> None:
    """Give warm-ups room in the run; leave out those below two steps."""
    for part in parts:
        if not part.warm_up:
            continue
        end = part.places['end']
        alone = len(parts) == 1 and end <= steps
        if end > steps / 2 and not alone:
            end = int(steps * _WARM_UP)
        # mmengine's warm-ups reach the learning rate with their last step,
        # and never if that is the first.
        acts = end if part.each_step or part.changed else end / part.factor
        if int(acts + 1e-6) < 2:
            part.dropped = int(end) < 2
            part.changed = True
        if end != part.places['end'] or part.dropped:
            _move(parts, part, 0 if part.dropped else end)


def _move(parts: Sequence[_Part], warm_up: _Part, end: float) -> None:
    """Let a warm-up end earlier, and what follows it begin there."""
    old = warm_up.places['end']
    for part in parts:
        if part is not warm_up and 0 < part.begin == old:
            if 'T_max' in part.places:
                part.places['T_max'] += part.begin - end
            part.places['begin'] = end
            part.changed = True
    warm_up.places['end'] = end
    warm_up.changed = True
