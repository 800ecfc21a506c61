# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Studies: encoders made in different ways, judged frozen, in pairs."""
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from qbheat_mm.errors import UserError

from ..results import Run

#: The stage of an arm that makes its encoder.
ENCODER = 'encoder'
#: Metrics of classifiers and detectors, and the names they are logged by.
ACCURACY = {'top-1': 'accuracy/top1'}
DETECTION = {'AP': 'coco/bbox_mAP', 'AP50': 'coco/bbox_mAP_50'}
#: Metrics that ``classify.py`` writes.
CLASSES = {name: name for name in ('top-1', 'ridge', 'RBF')}


@dataclass(frozen=True)
class Probe:
    """What judges a frozen encoder.

    Attributes:
        name: As in the results, ``'RetinaNet'``.
        config: Below ``configs/``; ``study/`` and ``demo/`` are this
            project's.
        metrics: Names in the results and in the log.
        options: ``KEY=VALUE`` settings.
        data: Instead of the arm's.
        classified: Whether ``classify.py`` judges the features instead of
            training the config on them.
    """
    name: str
    config: str
    metrics: Mapping[str, str]
    options: Sequence[str] = ()
    data: str = ''
    classified: bool = False


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
        start: The arm whose encoder of the same seed this one starts from;
            '': random weights.
        metrics: Of the training itself.
        data: Of the drawn world, with ``{seed}``; '': as the configs say.
        features: Of ``classify.py``, for arms without an encoder.
    """
    name: str
    title: str
    config: str | None
    options: Sequence[str] = ()
    encoder: Sequence[str] = ()
    start: str = ''
    metrics: Mapping[str, str] = field(default_factory=dict)
    data: str = ''
    features: str = ''


#: An arm and a stage, by name.
Cell = tuple[str, str]


@dataclass(frozen=True)
class Pair:
    """Two arms, or two probes of an arm, whose metrics are compared."""
    first: Cell
    second: Cell


@dataclass(frozen=True)
class Question:
    """What one metric of some pairs answers.

    Attributes:
        name: Of its figure's file.
        title: The question.
        metric: The primary metric.
        pairs: What is compared.
        seeds: Of the primary result.
        table: Arms whose means are shown.
        columns: (stage, metric) pairs of that table.
        note: What a reader has to know.
    """
    name: str
    title: str
    metric: str
    pairs: Sequence[Pair] = ()
    seeds: Sequence[int] = range(6)
    table: Sequence[str] = ()
    columns: Sequence[tuple[str, str]] = ()
    note: str = ''

    @property
    def cells(self) -> list[Cell]:
        """All cells, each once, in order."""
        both = [cell for pair in self.pairs
                for cell in (pair.first, pair.second)]
        shown = [(arm, stage) for arm in self.table
                 for stage, _ in self.columns]
        return list(dict.fromkeys([*both, *shown]))


@dataclass(frozen=True)
class Headline:
    """The README's chart and table.

    Attributes:
        chart: Arms of the chart, which shows the first column.
        table: Arms of the table.
        columns: (stage, metric) pairs of the table.
    """
    chart: Sequence[str]
    table: Sequence[str]
    columns: Sequence[tuple[str, str]]


class Study:
    """Arms, their probes, and what they answer.

    Args:
        arms (Sequence[Arm]): What is compared.
        probes (Sequence[Probe]): What judges them.
        questions (Sequence[Question]): In order of importance: what one
            needs is run before the next.
        about (str): What the report should say about its figures.
        limits (str): What the report should say they cannot show.
        ready (int | None): Questions that can be run; None: all.
        headline (Headline | None): Of the README.

    Raises:
        UserError: If two arms have the same name.
    """

    def __init__(self, arms: Sequence[Arm], probes: Sequence[Probe],
                 questions: Sequence[Question] = (), about: str = '',
                 limits: str = '', ready: int | None = None,
                 headline: Headline | None = None) -> None:
        self.arms = {arm.name: arm for arm in arms}
        self.probes = {probe.name: probe for probe in probes}
        self.questions = questions
        self.about, self.limits = about, limits
        self.ready, self.headline = ready, headline
        if len(self.arms) < len(arms):
            raise UserError('two arms of the study have the same name: '
                            f'{[arm.name for arm in arms]}')

    def runs(self) -> list[Run]:
        """What can be run, question by question and seed by seed."""
        return list(dict.fromkeys(
            run for question in self.questions[:self.ready]
            for run in self.question_runs(question)))

    def question_runs(self, question: Question) -> list[Run]:
        """What a question needs, seed by seed."""
        return list(dict.fromkeys(
            run for seed in question.seeds for cell in question.cells
            for run in self._needed(cell, seed)))

    def _needed(self, cell: Cell, seed: int) -> Iterator[Run]:
        """The training of an arm's own encoder, if any, and a cell's run."""
        arm, stage = cell
        if self.arms[arm].config:
            yield Run(arm, seed, ENCODER)
        yield Run(arm, seed, stage)

    def data(self, run: Run) -> str:
        """Name of the drawn data of a run; '': as its config says."""
        arm = self.arms[run.arm]
        stage = self.probes.get(run.stage, arm)
        return (stage.data or arm.data).replace('{seed}', str(run.seed))

    def start(self, run: Run) -> Run | None:
        """The run whose encoder a run starts from; None: random weights."""
        arm = self.arms[run.arm]
        if run.stage != ENCODER and arm.config:
            return run._replace(stage=ENCODER)
        return Run(arm.start, run.seed, ENCODER) if arm.start else None
