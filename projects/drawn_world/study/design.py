# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What a study consists of: encoders to be made, probes to judge them."""
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

from qbheat_mm.errors import UserError

#: The stage of an arm that makes its encoder.
ENCODER = 'encoder'
#: What classifiers and detectors log, and what it is called in the results.
ACCURACY = {'top-1': ('accuracy/top1', 1)}
DETECTION = {'AP': ('coco/bbox_mAP', 100), 'AP50': ('coco/bbox_mAP_50', 100)}


@dataclass(frozen=True)
class Probe:
    """What judges a frozen encoder: a training, or a tool that measures.

    Attributes:
        name: As in the results, ``'tran1'``.
        config: Below ``configs/``.
        metrics: Name in the results to the logged name and the factor that
            it is multiplied by, as ``{'AP': ('coco/bbox_mAP', 100)}``.
        options: ``KEY=VALUE`` settings of every run.
        tool: '': the configuration is trained with the encoder frozen. Else
            a file below ``tools/`` that gets the configuration, the
            encoder's checkpoint and ``--out FOLDER``, where it writes
            ``metrics.json``.
    """
    name: str
    config: str
    metrics: Mapping[str, tuple[str, float]]
    options: Sequence[str] = ()
    tool: str = ''


@dataclass(frozen=True)
class Arm:
    """A way to make an encoder, and what it is judged by.

    Attributes:
        name: As in the results.
        title: As in tables.
        config: Of the training that makes the encoder, below ``configs/``;
            None: there is none, probes begin with the encoder of ``start``.
        options: ``KEY=VALUE`` settings of that training.
        encoder: ``KEY=VALUE`` settings of the encoder, as of its size, which
            its probes need too.
        probes: Names of the probes; None: all of the study.
        seeds: Numbers of seeds, from 0.
        start: The arm whose encoder (of the same seed) this one begins
            with; '': from random weights.
        time_of: Two arms (X, Y): train as many epochs as take the time of
            arm Y at the pace of arm X, both measured on seed 0; None: as
            many as the configuration says.
        metrics: Of the training itself, as of :class:`Probe`.
    """
    name: str
    title: str
    config: str | None
    options: Sequence[str] = ()
    encoder: Sequence[str] = ()
    probes: Sequence[str] | None = None
    seeds: int = 3
    start: str = ''
    time_of: tuple[str, str] | None = None
    metrics: Mapping[str, tuple[str, float]] = field(default_factory=dict)


class Run(NamedTuple):
    """One training: an arm's encoder, or one probe of it, of one seed."""
    arm: str
    seed: int
    stage: str

    def __str__(self) -> str:
        return f'{self.arm}/{self.seed}/{self.stage}'


@dataclass(frozen=True)
class Study:
    """Arms in the order of their importance, and their probes.

    Attributes:
        arms: What is compared.
        probes: What judges them.
        about: What the figures are of, in sentences for a report.

    Raises:
        UserError: Two of one name, a name that nothing has, an arm that
            others begin with and that trains no encoder, or arms that wait
            for each other.
    """
    arms: Sequence[Arm]
    probes: Sequence[Probe]
    about: str = ''

    def __post_init__(self) -> None:
        for kind, things in (('arm', self.arms), ('probe', self.probes)):
            names = [thing.name for thing in things]
            twice = {name for name in names if names.count(name) > 1}
            if twice:
                raise UserError(f'two {kind}s are named {sorted(twice)[0]!r}')
        arms, probes = self.arm_names, {p.name for p in self.probes}
        refers = {arm.name: [arm.start] * bool(arm.start) +
                  list(arm.time_of or ()) for arm in self.arms}
        for arm in self.arms:
            for name in refers[arm.name]:
                if name not in arms:
                    raise UserError(f'arm {arm.name!r} refers to the arm '
                                    f'{name!r}, which the study lacks')
                if not self.arm(name).config:
                    raise UserError(f'arm {arm.name!r} refers to the arm '
                                    f'{name!r}, which trains no encoder: '
                                    'name one that has a config')
            for name in arm.probes or ():
                if name not in probes:
                    raise UserError(f'arm {arm.name!r} asks for the probe '
                                    f'{name!r}, which the study lacks')
            tools = [name for name in self.stages(arm)
                     if name != ENCODER and self.probe(name).tool]
            if tools and not arm.config and not arm.start:
                raise UserError(f'arm {arm.name!r} has random weights and no '
                                f'checkpoint, which {tools[0]!r} needs')
        try:
            TopologicalSorter(refers).prepare()
        except CycleError as error:
            names = ', '.join(map(repr, error.args[1][1:]))
            raise UserError(f'the arms {names} wait for each other: give one '
                            'another start or time_of') from error

    @property
    def arm_names(self) -> list[str]:
        """Names of the arms, in their order."""
        return [arm.name for arm in self.arms]

    def arm(self, name: str) -> Arm:
        """The arm of a name."""
        return next(arm for arm in self.arms if arm.name == name)

    def probe(self, name: str) -> Probe:
        """The probe of a name."""
        return next(probe for probe in self.probes if probe.name == name)

    def stages(self, arm: Arm) -> list[str]:
        """Names of an arm's trainings, the encoder's first if it has one."""
        probes = [p.name for p in self.probes] if arm.probes is None else list(
            arm.probes)
        return ([ENCODER] if arm.config else []) + probes

    def runs(self) -> Iterator[Run]:
        """All runs: arm by arm, of each the seeds in turn."""
        for arm in self.arms:
            for seed in range(arm.seeds):
                for stage in self.stages(arm):
                    yield Run(arm.name, seed, stage)

    def start(self, run: Run) -> Run | None:
        """The encoder whose weights a run begins with; None: random ones."""
        arm = self.arm(run.arm)
        if run.stage != ENCODER and arm.config:
            return run._replace(stage=ENCODER)
        return Run(arm.start, run.seed, ENCODER) if arm.start else None

    def settings(self, run: Run) -> list:
        """What a run is made by, but for its seed, and the run before it.

        Of two runs that differ in it the figures are not those of one arm. A
        configuration outside of the project has no folder here.
        """
        arm, start = self.arm(run.arm), self.start(run)
        if run.stage == ENCODER:
            config, options = arm.config, arm.options
            more = [f'as long as {name}' for name in arm.time_of or ()]
        else:
            probe = self.probe(run.stage)
            config, options = probe.config, probe.options
            more = [f'tools/{probe.tool}'] if probe.tool else []
        if Path(config).is_absolute():
            config = Path(config).name
        return [config, *arm.encoder, *options, *more,
                *([self.settings(start)] if start else [])]

    def timing(self, run: Run) -> list[Run]:
        """The runs whose measured times tell how long a run is."""
        arms = self.arm(run.arm).time_of if run.stage == ENCODER else None
        return [Run(name, 0, ENCODER) for name in arms or ()]

    def needs(self, run: Run) -> list[Run]:
        """The runs that must have ended before a run."""
        start = self.start(run)
        return [*self.timing(run), *([start] if start else [])]
