# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Studies: paired comparisons of frozen encoders."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from qbheat_mm.errors import UserError

from .results import Run

#: The stage that trains an arm's encoder.
ENCODER = 'encoder'
#: Classifies images from frozen features.
CLASSIFY = Path(__file__).with_name('classify.py')
#: Logged metrics of classifiers and detectors, by their names in the rows.
ACCURACY = {'top-1': 'accuracy/top1'}
DETECTION = {'AP': 'coco/bbox_mAP', 'AP50': 'coco/bbox_mAP_50'}
#: Metrics that it writes.
CLASSES = {'top-1': 'top-1', 'ridge': 'ridge', 'RBF': 'RBF'}


@dataclass(frozen=True)
class Probe:
    """An evaluation of frozen encoders.

    Attributes:
        name: Name in the rows, such as ``'RetinaNet'``.
        config: Path below ``configs/``; ``study/`` and ``demo/`` are the
            drawn world's.
        metrics: Logged metrics, by their names in the rows.
        options: ``KEY=VALUE`` settings, with ``{seed}``.
        data: Drawn data, if not the arm's.
        script: A script like ``CLASSIFY`` that evaluates the encoder; None:
            training the config does.
    """
    name: str
    config: str
    metrics: Mapping[str, str]
    options: Sequence[str] = ()
    data: str = ''
    script: Path | None = None


@dataclass(frozen=True)
class Arm:
    """A way to train an encoder.

    Names are permanent; rows are never recomputed. Give an arm with other
    settings another name.

    Attributes:
        name: Name in the rows.
        title: Name in tables.
        config: Training config of the encoder; None: probes use the encoder
            of ``start``.
        options: ``KEY=VALUE`` settings of that training, with ``{seed}``.
        start: The arm whose encoder of the same seed this one starts from;
            '': random weights.
        weights: File of a published encoder, for arms without training.
        metrics: Metrics of the training itself.
        data: Drawn data, with ``{seed}``; '': as in the configs.
        features: A baseline of ``classify.py``, for arms without an encoder.
    """
    name: str
    title: str
    config: str | None
    options: Sequence[str] = ()
    start: str = ''
    weights: str = ''
    metrics: Mapping[str, str] = field(default_factory=dict)
    data: str = ''
    features: str = ''


#: Names of an arm and a stage.
Cell = tuple[str, str]


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        stage: The stage.
        metric: The metric.
        prefix: Prefix of the arms' names, if the table leaves it out.
    """
    stage: str
    metric: str
    prefix: str = ''


class Pair(NamedTuple):
    """Two arms, or two probes of an arm, to compare on some images."""
    first: Cell
    second: Cell
    images: str = ''


@dataclass(frozen=True)
class Question:
    """A question, answered by comparing some pairs.

    Attributes:
        name: Name of the figure's file.
        title: The question, without its mark.
        metrics: Those that must agree, the primary one first: METRIC, or
            STAGE/METRIC of another stage than the pair's.
        pairs: Comparisons.
        seeds: Seeds of the primary result.
        table: Arms in a table of means.
        columns: Columns of that table.
        note: A remark for readers.
    """
    name: str
    title: str
    metrics: Sequence[str]
    pairs: Sequence[Pair] = ()
    seeds: Sequence[int] = range(6)
    table: Sequence[str] = ()
    columns: Sequence[Column] = ()
    note: str = ''

    @property
    def heading(self) -> str:
        """The question, and whether there is only one seed."""
        one_seed = ' (one seed)' if self.pairs and len(self.seeds) == 1 else ''
        return f'{self.title}{one_seed}?'

    @property
    def cells(self) -> list[Cell]:
        """Cells of pairs and table, each once, in order."""
        cells: dict[Cell, None] = {}
        for pair in self.pairs:
            for arm, stage in (pair.first, pair.second):
                cells[arm, stage] = None
                for metric in self.metrics:
                    other_stage = metric.rpartition('/')[0]
                    if other_stage:
                        cells[arm, other_stage] = None
        for arm in self.table:
            for column in self.columns:
                cells[column.prefix + arm, column.stage] = None
        return list(cells)


class Study:
    """Arms, probes and questions.

    Args:
        arms (Sequence[Arm]): Ways to train encoders.
        probes (Sequence[Probe]): Their evaluations.
        questions (Sequence[Question]): In order of importance: the runs of
            one come before the next one's.
        about (str): Introduction of the report.
        limits (str): What the report cannot show.
        headline (Sequence[Question]): Of a figure of other pages, with their
            titles as headings.
        title (str): Title of the report.
        primary (int): Seeds of a primary result.

    Raises:
        UserError: If two arms have the same name.
    """

    def __init__(self, arms: Sequence[Arm], probes: Sequence[Probe],
                 questions: Sequence[Question] = (), about: str = '',
                 limits: str = '', headline: Sequence[Question] = (),
                 title: str = 'Evidence', primary: int = 6) -> None:
        self.arms = {arm.name: arm for arm in arms}
        self.probes = {probe.name: probe for probe in probes}
        self.questions = questions
        self.about, self.limits = about, limits
        self.headline, self.title = headline, title
        self.primary = primary
        if len(self.arms) < len(arms):
            raise UserError('two arms of the study have the same name: '
                            f'{[arm.name for arm in arms]}')

    def runs(self) -> list[Run]:
        """All runs, question by question and seed by seed."""
        runs: dict[Run, None] = {}
        for question in self.questions:
            runs |= dict.fromkeys(self.question_runs(question))
        return list(runs)

    def question_runs(self, question: Question) -> list[Run]:
        """Runs of a question, seed by seed, each after its arm's encoder."""
        runs: dict[Run, None] = {}
        for seed in question.seeds:
            for arm, stage in question.cells:
                if self.arms[arm].config:
                    runs[Run(arm, seed, ENCODER)] = None
                runs[Run(arm, seed, stage)] = None
        return list(runs)

    def data(self, run: Run) -> str:
        """Name of the drawn data of a run; '': as in its config."""
        arm = self.arms[run.arm]
        stage = self.probes.get(run.stage, arm)
        return (stage.data or arm.data).replace('{seed}', str(run.seed))

    def start(self, run: Run) -> Run | None:
        """The run whose encoder a run starts from; None: random weights."""
        arm = self.arms[run.arm]
        if run.stage != ENCODER and arm.config:
            return run._replace(stage=ENCODER)
        if arm.start and self.arms[arm.start].config:
            return Run(arm.start, run.seed, ENCODER)
        return None

    def published(self, run: Run) -> str:
        """The file of a published encoder that a run starts from, or ''."""
        arm = self.arms[run.arm]
        if run.stage != ENCODER and arm.config:
            return ''
        if arm.weights or not arm.start:
            return arm.weights
        return self.arms[arm.start].weights
