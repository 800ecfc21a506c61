# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What the rows say: answers to questions, and numbers that pages name."""
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import NamedTuple

from projects.study import Pair, Question, Study
from projects.study.comparison import Comparison, compare, joint_verdict
from projects.study.results import Row, Run, values

Rows = Mapping[Run, Row]
NUMBER = re.compile(
    '(?P<start><!--=(?P<arms>.+?)/(?P<stage>.+?)/(?P<metric>.+?)-->)'
    '[^<]*(?P<end><!--/-->)')


class Answer(NamedTuple):
    """What the rows say about a pair.

    Attributes:
        images: Name of the images, or ''.
        first: Title of the first arm.
        second: Title of the second arm.
        differences: By metric, the primary one first; without those that have
            no rows.
        verdict: Of all metrics; '' if one has too few seeds.
        missing: Such as '1 of 3 seeds', or ''.
    """
    images: str
    first: str
    second: str
    differences: Mapping[str, Comparison]
    verdict: str
    missing: str

    @property
    def title(self) -> str:
        """Both arms, after their images."""
        images = f'{self.images}: ' if self.images else ''
        return f'{images}{self.first} against {self.second}'

    def __str__(self) -> str:
        """As '**yes**, ridge +3.0 [+1.4, +4.6], tran-1 +2.0 [+1.0, +3.0]'."""
        if not self.differences:
            return 'not run yet'
        parts = []
        for metric, comparison in self.differences.items():
            name = f'{metric} ' if len(self.differences) > 1 else ''
            parts.append(f'{name}{comparison}')
        if self.verdict:
            parts.insert(0, f'**{self.verdict}**')
        text = ', '.join(parts)
        return f'{text} ({self.missing})' if self.missing else text


def pair_titles(study: Study, pair: Pair) -> tuple[str, str]:
    """Titles of both sides of a comparison."""
    (arm, stage), (other, other_stage) = pair.first, pair.second
    title = study.arms[arm].title
    if stage == other_stage:
        return title, study.arms[other].title
    return stage, f'{other_stage} on {title}'


def compare_pair(rows: Rows, pair: Pair, metric: str) -> Comparison | None:
    """Compare a pair by METRIC, or STAGE/METRIC of another stage."""
    stage, _, metric = metric.rpartition('/')
    sides = []
    for arm, own_stage in (pair.first, pair.second):
        sides.append(values(rows, arm, stage or own_stage, metric))
    return compare(*sides)


def answer_pair(study: Study, rows: Rows, question: Question, pair: Pair
                ) -> Answer:
    """Compare a pair by each metric of a question."""
    differences, seeds = {}, []
    for metric in question.metrics:
        comparison = compare_pair(rows, pair, metric)
        if comparison:
            differences[metric.partition('/')[0]] = comparison
            seeds.append(len(comparison.differences))
    verdict = missing = ''
    fewest, asked = min(seeds, default=0), len(question.seeds)
    if fewest < asked:
        missing = f'{fewest} of {asked} seeds'
    elif (fewest >= study.primary
          and len(differences) == len(question.metrics)):
        verdict = joint_verdict(differences)
    return Answer(pair.images, *pair_titles(study, pair), differences,
                  verdict, missing)


def answer(study: Study, rows: Rows, question: Question) -> list[Answer]:
    """Answer a question as far as there are rows."""
    return [answer_pair(study, rows, question, pair)
            for pair in question.pairs]


def summarize(answers: Sequence[Answer]) -> str:
    """A sentence for each first arm: verdicts, or differences without them."""
    by_arm = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for found in answers:
        if not found.differences:
            continue
        verdict, text = found.verdict.partition(' (')[0], found.second
        if not verdict:
            verdict = 'too few seeds'
            if any(each.is_constant for each in found.differences.values()):
                verdict = 'no interval, since all seeds agree'
            primary = next(iter(found.differences.values()))
            text = f'{text} ({primary.mean:+.1f})'
        by_arm[found.first][verdict][found.images].append(text)
    sentences = []
    for first, by_verdict in by_arm.items():
        parts = []
        for verdict, by_images in by_verdict.items():
            answered = f'**{verdict}**'
            for images, others in by_images.items():
                place = f' on {images}' if images else ''
                parts.append(
                    f'{answered}{place} against {", ".join(others)}'.strip())
                answered = ''  # once
        sentences.append(f'{first[0].upper()}{first[1:]}: {"; ".join(parts)}.')
    return ' '.join(sentences)


def number(rows: Rows, arms: str, stage: str, metric: str) -> str:
    """A mean, a difference with its interval, or a verdict.

    Args:
        rows (Mapping[Run, Row]): Rows of studies.
        arms (str): 'ARM', 'ARM@SEED', or 'ARM:OTHER' to compare.
        stage (str): Their stage.
        metric (str): The metric; 'METRIC?' or 'METRIC+OTHER?' for a verdict.

    Returns:
        str: '-' without rows.
    """
    arm, _, other = arms.partition(':')
    if not other:
        arm, _, seed = arm.partition('@')
        measured = values(rows, arm, stage, metric)
        if seed:
            measured = {each: value for each, value in measured.items()
                        if each == int(seed)}
        return f'{mean(measured.values()):.1f}' if measured else '-'
    pair = Pair((arm, stage), (other, stage))
    comparisons = {}
    for name in metric.removesuffix('?').split('+'):
        comparison = compare_pair(rows, pair, name)
        if not comparison:
            return '-'
        comparisons[name] = comparison
    if metric.endswith('?'):
        return joint_verdict(comparisons) or '-'
    return str(comparisons[metric])


def fill_numbers(text: str, rows: Rows) -> str:
    """Fill in the numbers that a page names."""
    return NUMBER.sub(lambda match: match['start'] + number(
        rows, match['arms'], match['stage'], match['metric']) + match['end'],
        text)
