# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Studies: encoders made in different ways, judged frozen, seed by seed."""
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from qbheat_mm.errors import UserError

from ..results import Run

#: The stage of an arm that makes its encoder.
ENCODER = 'encoder'
#: Metrics of classifiers and detectors, and the names they are logged by.
ACCURACY = {'top-1': 'accuracy/top1'}
DETECTION = {'AP': 'coco/bbox_mAP', 'AP50': 'coco/bbox_mAP_50'}


@dataclass(frozen=True)
class Probe:
    """What judges a frozen encoder.

    Attributes:
        name: As in the results, ``'tran-1'``.
        config: Below ``configs/``; ``demo/`` is this project's.
        metrics: Names in the results and in the log.
        options: ``KEY=VALUE`` settings.
        measured: Whether ``measure.py`` measures the encoder instead of
            training the config on it.
    """
    name: str
    config: str
    metrics: Mapping[str, str]
    options: Sequence[str] = ()
    measured: bool = False


@dataclass(frozen=True)
class Arm:
    """A way to make an encoder.

    A name stands for its settings for ever: its rows are never run again.
    Give an arm with other settings another name.

    Attributes:
        name: As in the results.
        title: As in tables.
        config: Of the training that makes the encoder; None: probes start
            from the encoder of ``start``.
        options: ``KEY=VALUE`` settings of that training.
        encoder: ``KEY=VALUE`` settings of the encoder itself, such as its
            size, which its probes need too.
        probes: Names of its probes; None: all.
        seeds: Number of seeds, from 0.
        start: The arm whose encoder of the same seed this one starts from;
            '': random weights.
        metrics: Of the training itself.
    """
    name: str
    title: str
    config: str | None
    options: Sequence[str] = ()
    encoder: Sequence[str] = ()
    probes: Sequence[str] | None = None
    seeds: int = 3
    start: str = ''
    metrics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """Arms that are compared with a baseline.

    Attributes:
        name: Of its figure's file.
        title: The question.
        baseline: Name of the arm that the others are compared with.
        arms: Names of the others.
        columns: (stage, metric) pairs that answer it.
        paper: What the paper found, and where it says so.
    """
    name: str
    title: str
    baseline: str
    arms: Sequence[str]
    columns: Sequence[tuple[str, str]]
    paper: str = ''


class Study:
    """Arms in order of importance, their probes, and what they answer.

    Args:
        arms (Sequence[Arm]): What is compared.
        probes (Sequence[Probe]): What judges them.
        questions (Sequence[Question]): Sections of the report.
        about (str): What the report should say about its figures.

    Raises:
        UserError: If two arms have the same name.
    """

    def __init__(self, arms: Sequence[Arm], probes: Sequence[Probe],
                 questions: Sequence[Question] = (), about: str = '') -> None:
        self.arms = {arm.name: arm for arm in arms}
        self.probes = {probe.name: probe for probe in probes}
        self.questions = questions
        self.about = about
        if len(self.arms) < len(arms):
            raise UserError('two arms of the study have the same name: '
                            f'{[arm.name for arm in arms]}')

    def stages(self, arm: Arm) -> list[str]:
        """The encoder's training, if any, and the probes of an arm."""
        probes = self.probes if arm.probes is None else arm.probes
        return [*([ENCODER] if arm.config else []), *probes]

    def runs(self) -> Iterator[Run]:
        """All runs, arm by arm and seed by seed."""
        for arm in self.arms.values():
            for seed in range(arm.seeds):
                for stage in self.stages(arm):
                    yield Run(arm.name, seed, stage)

    def start(self, run: Run) -> Run | None:
        """The run whose encoder a run starts from; None: random weights."""
        arm = self.arms[run.arm]
        if run.stage != ENCODER and arm.config:
            return run._replace(stage=ENCODER)
        return Run(arm.start, run.seed, ENCODER) if arm.start else None
