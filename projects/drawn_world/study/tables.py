# Copyright (c) QB-Heat MM authors. All rights reserved.
"""From rows to answers: a table, a sentence and a picture for a question."""
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from qbheat_mm.analysis.report import Report, Table
from qbheat_mm.analysis.style import BLUE, GREY, grid, new_figure

from .comparison import LEVEL, Comparison, compare, correct
from .design import ENCODER, Arm, Study
from .results import Results

#: Figures in percent; others are shares and ratios.
PERCENT = {'top-1', 'k-NN', 'AP', 'AP50'}
#: What stands for a figure that an encoder cannot have, one that the study
#: does not ask for of an arm, and one that it has not measured yet.
NONE, NOT_ASKED, OPEN = 'none', 'not asked', 'not measured'


@dataclass(frozen=True)
class Question:
    """Arms that are compared with one of them.

    Attributes:
        name: Of files.
        title: The question.
        baseline: Name of the arm that the others are compared with.
        arms: Names of the others.
        decisive: The figures that the answer is about, as
            ``('tran-1', 'top-1')``.
        figures: Those that are shown; the decisive ones if empty.
        paper: What the paper found, and where it says so.
    """
    name: str
    title: str
    baseline: str
    arms: Sequence[str]
    decisive: Sequence[tuple[str, str]]
    figures: Sequence[tuple[str, str]] = ()
    paper: str = ''

    @property
    def columns(self) -> Sequence[tuple[str, str]]:
        """The figures that are shown."""
        return self.figures or self.decisive


@dataclass(frozen=True)
class Cell:
    """One arm against the baseline in one figure.

    ``p`` is corrected, and NaN where the seeds are too few for a test.
    """
    arm: Arm
    stage: str
    metric: str
    comparison: Comparison | None
    p: float


def cells(study: Study, results: Results, question: Question) -> list[Cell]:
    """All comparisons of a question, their p-values corrected together."""
    found = [(study.arm(name), stage, metric,
              compare(results.values(name, stage, metric),
                      results.values(question.baseline, stage, metric)))
             for name in question.arms for stage, metric in question.columns]
    corrected = correct([c.p if c and c.testable else math.nan
                         for *_, c in found])
    return [Cell(*cell, p) for cell, p in zip(found, corrected)]


def to_markdown(study: Study, results: Results, question: Question) -> str:
    """A question's section: the answer, figures, differences, the picture.

    One that nothing was measured for is its answer alone, which says so.
    """
    found = cells(study, results, question)
    text = [f'## {question.title}', '',
            *(f'- {sentence}' for sentence in answers(
                study, results, question, found)), '',
            *([f'*In the paper (not ours):* {question.paper}', '']
              if question.paper else ())]
    if is_measured(results, question):
        text += [*table(_figures(study, results, question)), '',
                 *table(_differences(study, results, question, found)), '',
                 f'![{question.title}](evidence/{question.name}.svg)', '']
    return '\n'.join(text)


def to_report(study: Study, results: Results, question: Question) -> Report:
    """The same for a page in HTML; its picture is called as the question."""
    found = cells(study, results, question)
    caption = ' '.join(answers(study, results, question, found))
    if question.paper:
        caption = f'{caption} In the paper (not ours): {question.paper}'
    caption = plain(caption)
    if not is_measured(results, question):
        return Report(question.name, question.title, caption)
    tables = (('Mean and standard deviation', _figures(
        study, results, question)),
              ('Differences, 95 % interval, corrected p-value',
               _differences(study, results, question, found)))
    return Report(
        question.name, question.title, caption,
        tables=[Table(title, head, rows) for title, (head, *rows) in tables],
        pictures=[question.name])


def plain(markdown: str) -> str:
    """Text without Markdown's marks; of a link its words."""
    text = re.sub(r'\[([^\]]*)\]\([^)]*\)', r'\1', markdown)
    return text.replace('**', '').replace('`', '')


def is_measured(results: Results, question: Question) -> bool:
    """Whether there is anything to compare the baseline with."""
    return any(results.values(name, *column)
               for name in question.arms
               for column in question.columns)


def answers(study: Study, results: Results, question: Question,
            found: Sequence[Cell]) -> list[str]:
    """The answer in sentences, one for each arm; what is open says so."""
    baseline = study.arm(question.baseline).title
    sentences = []
    for name in question.arms:
        mine = [cell for cell in found if cell.arm.name == name
                and (cell.stage, cell.metric) in question.decisive]
        told = [_say(study, cell) for cell in mine if cell.comparison]
        if told:
            told += [f'{_name(study, cell.stage, cell.metric)} {OPEN} yet'
                     for cell in mine if not cell.comparison
                     and not {NONE, NOT_ASKED} & {
                         _missing(study, results, arm, cell.stage, cell.metric)
                         for arm in (name, question.baseline)}]
        said = '; '.join(told) or f'{OPEN} yet'
        sentences.append(
            f'**{study.arm(name).title}** against {baseline}: {said}.')
    return sentences


def summary(study: Study, results: Results,
            questions: Sequence[Question]) -> list[list[str]]:
    """Differences in the figures that decide more than one question.

    Returns:
        list[list[str]]: Lines of a table, the first of them its head.
    """
    counts = Counter(column for q in questions for column in q.decisive)
    columns = [column for column, count in counts.items() if count > 1]
    lines = [['question', 'encoder', 'against',
              *(_name(study, *column) for column in columns)]]
    for question in questions:
        found = {(cell.arm.name, cell.stage, cell.metric): cell
                 for cell in cells(study, results, question)}
        if not set(columns) & set(question.decisive):
            continue
        lines += [[question.title, study.arm(name).title,
                   study.arm(question.baseline).title,
                   *(_brief(found[(name, *column)])
                     if column in question.decisive else ''
                     for column in columns)] for name in question.arms]
    return lines


def _brief(cell: Cell) -> str:
    """As "+3.0 (2 of 2)", with the p-value of a test if there is one."""
    c = cell.comparison
    if c is None:
        return 'open'
    same = sum(d * c.mean > 0 for d in c.differences)
    test = '' if math.isnan(cell.p) else f', p {cell.p:.3f}'
    return (f'{_number(c.mean, cell.metric, "+")} '
            f'({same} of {len(c.differences)}{test})')


def _number(value: float, metric: str, sign: str = '') -> str:
    """Percents with one decimal, all else with two."""
    return f'{value:{sign}.{1 if metric in PERCENT else 2}f}'


def _say(study: Study, cell: Cell) -> str:
    """A difference, and how sure it is: by a test, or by its signs."""
    c, metric = cell.comparison, cell.metric
    change = (f'{_name(study, cell.stage, metric)} '
              f'{_number(c.mean, metric, "+")}')
    seeds = len(c.differences)
    if seeds == 1:
        return f'{change} (one seed)'
    signs = _signs(c.differences)
    if not c.testable:
        return f'{change} ({seeds} seeds, {signs})'
    verdict = ''
    if cell.p >= LEVEL:
        verdict = (f', {signs}, which so few seeds cannot tell from luck here'
                   if c.least else ', which may be luck')
    return f'{change} ({seeds} seeds, p = {cell.p:.3f}){verdict}'


def _signs(differences: Sequence[float]) -> str:
    """Whether they agree."""
    for word, same in (('more', lambda d: d > 0), ('less', lambda d: d < 0),
                       ('the same', lambda d: d == 0)):
        if all(map(same, differences)):
            return f'{word} in each'
    return 'now more, now less'


def _name(study: Study, stage: str, metric: str) -> str:
    """How a figure is called; those of tools say themselves what they are."""
    if stage == ENCODER:
        return f'trained itself, {metric}'
    return metric if study.probe(stage).tool else f'{stage}, {metric}'


def _figures(study: Study, results: Results,
             question: Question) -> list[list[str]]:
    """Mean and standard deviation over seeds of every figure.

    A figure of fewer seeds than the most of its row says of how many.
    """
    head = ['encoder', 'seeds',
            *(_name(study, *column) for column in question.columns)]
    lines = [head]
    for name in (question.baseline, *question.arms):
        arm = study.arm(name)
        values = [results.values(name, *column) for column in question.columns]
        seeds = max(map(len, values), default=0)
        lines.append([arm.title, f'{seeds} of {arm.seeds}',
                      *(_mean(list(v.values()), metric) +
                        (f' ({len(v)})' if len(v) < seeds else '') if v
                        else _missing(study, results, name, stage, metric)
                        for v, (stage, metric)
                        in zip(values, question.columns))])
    return lines


def _missing(study: Study, results: Results, arm: str, stage: str,
             metric: str) -> str:
    """Why a figure is not there; '' where it is, of some seeds at least."""
    if results.values(arm, stage, metric):
        return ''
    if results.has_stage(arm, stage):
        return NONE
    return OPEN if stage in study.stages(study.arm(arm)) else NOT_ASKED


def _mean(values: Sequence[float], metric: str) -> str:
    mean = sum(values) / len(values)
    if len(values) < 2:
        return _number(mean, metric)
    spread = math.sqrt(sum((v - mean)**2 for v in values) /
                       (len(values) - 1))
    return f'{_number(mean, metric)} ± {_number(spread, metric)}'


def _differences(study: Study, results: Results, question: Question,
                 found: Sequence[Cell]) -> list[list[str]]:
    """Differences with their intervals."""
    lines = [[f'against {study.arm(question.baseline).title}',
              *(_name(study, *column) for column in question.columns)]]
    for name in question.arms:
        lines.append([study.arm(name).title,
                      *(_difference(cell) if cell.comparison
                        else _missing(study, results, name, cell.stage,
                                      cell.metric) or OPEN
                        for cell in found if cell.arm.name == name)])
    return lines


def _difference(cell: Cell) -> str:
    c = cell.comparison
    mean, low, high = (_number(value, cell.metric, '+')
                       for value in (c.mean, c.low, c.high))
    text = mean if math.isnan(c.low) else f'{mean} [{low}, {high}]'
    return text if math.isnan(cell.p) else f'{text}, p {cell.p:.3f}'


def table(lines: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table, the first of them its head."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    text = ['| ' + ' | '.join(cell.ljust(width) for cell, width in zip(
        line, widths)) + ' |' for line in lines]
    rule = '|' + '|'.join('-' * (width + 2) for width in widths) + '|'
    return [text[0], rule, *text[1:]]


def draw(study: Study, results: Results, question: Question):
    """Every seed as a point, every arm as a row, a panel for each figure.

    Returns:
        matplotlib.figure.Figure: Figures in percent.
    """
    names = (question.baseline, *question.arms)
    figures = question.columns
    figure = new_figure(2. * len(figures) + 1.5, 0.4 * len(names) + 0.8)
    panels = grid(figure, 1, len(figures), sharey=True)[0]
    for panel, (stage, metric) in zip(panels, figures):
        for row, name in enumerate(names):
            values = list(results.values(name, stage, metric).values())
            colour = GREY if name == question.baseline else BLUE
            panel.plot(values, [row] * len(values), 'o', color=colour,
                       markersize=3, alpha=0.6)
            if values:
                panel.plot([sum(values) / len(values)], [row], '|',
                           color=colour, markersize=14)
        panel.set_title(_name(study, stage, metric))
    panels[0].set_yticks(range(len(names)),
                         [study.arm(name).title for name in names])
    panels[0].invert_yaxis()
    return figure
