# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What a comparison of encoders found, and what it advises."""
import csv
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import NamedTuple

#: A difference that is worth a choice: points, and images.
POINTS, IMAGES = 2, 2


@dataclass
class Comparison:
    """Which features to use.

    Attributes:
        images (int): Number of test images.
        accuracies (dict[str, dict[int, list[float]]]): Top-1 in percent by
            name, cheapest first, and by number of labels; one for each
            choice of labels. Encoders have ridge regression, thumbnails and
            HOG that or an SVM.
        probes (dict[str, float]): Top-1 of ``tran-1`` with all labels, by
            name.
    """
    images: int
    accuracies: dict[str, dict[int, list[float]]] = field(
        default_factory=dict)
    probes: dict[str, float] = field(default_factory=dict)

    @property
    def counts(self) -> list[int]:
        """Numbers of labels, ascending; the last one is all of them."""
        return list(next(iter(self.accuracies.values())))

    def advise(self, count: int) -> str:
        """Say which to use with a number of labels.

        Features without learning are cheap: the first that is good enough is
        preferred. Encoders are preferred by score.
        """
        scores = {name: mean(by_count[count])
                  for name, by_count in self.accuracies.items()}
        best = chosen = max(scores, key=scores.get)
        matters = max(POINTS, 100 * IMAGES / self.images)
        for name, score in scores.items():
            if name not in self.probes and score > scores[best] - matters:
                chosen = name
                break
        more = '' if chosen == best else (
            f'; {best} has {scores[best]:.1f} %, not {matters:.0f} points '
            'more')
        return (f'With {count} labels, use {chosen} ({scores[chosen]:.1f} % '
                f'right{more}).')

    @property
    def advice(self) -> str:
        """Say which to use, for each number of labels."""
        return ' '.join(self.advise(count) for count in self.counts)

    def write_csv(self, file: str | Path) -> None:
        """Write a row for each accuracy."""
        rows = []
        for name, by_count in self.accuracies.items():
            probe = 'ridge' if name in self.probes else 'ridge or SVM'
            for count, scores in by_count.items():
                for choice, score in enumerate(scores):
                    rows.append([name, probe, count, choice, score])
        for name, score in self.probes.items():
            rows.append([name, 'tran-1', self.counts[-1], 0, score])
        write_rows(file, ['features', 'probe', 'labels', 'choice', 'top1'],
                   rows)


class Precision(NamedTuple):
    """COCO's AP and AP50 of boxes, in percent."""
    ap: float
    ap50: float


@dataclass
class BoxComparison:
    """Which encoder to use for a detector.

    Attributes:
        images (int): Number of validation images.
        steps (int): Steps of each detector.
        scores (dict[str, dict[int, Precision]]): By the encoder's name and
            the number of training boxes.
    """
    images: int
    steps: int
    scores: dict[str, dict[int, Precision]] = field(default_factory=dict)

    @property
    def counts(self) -> list[int]:
        """Numbers of boxes, ascending; the last one is all of them."""
        return list(next(iter(self.scores.values())))

    @property
    def curves(self) -> dict[str, dict[int, list[float]]]:
        """AP by name and number of boxes."""
        curves = {}
        for name, by_count in self.scores.items():
            curves[name] = {count: [score.ap]
                            for count, score in by_count.items()}
        return curves

    def ranking(self, count: int) -> list[str]:
        """Names by AP with a number of boxes, the best first."""
        return sorted(self.scores, reverse=True,
                      key=lambda name: self.scores[name][count].ap)

    def advise(self, count: int) -> str:
        """Say which to use with a number of boxes."""
        best, *others = self.ranking(count)
        ap, more = self.scores[best][count].ap, ''
        if others:
            score = self.scores[others[0]][count].ap
            more = f'; next, {others[0]}: {score:.1f}'
            if ap - score < POINTS:
                more += ', too close to tell'
        return f'With {count} boxes, use {best} (AP {ap:.1f}{more}).'

    @property
    def advice(self) -> str:
        """Say which to use, for each number of boxes."""
        return ' '.join(self.advise(count) for count in self.counts)

    def write_csv(self, file: str | Path) -> None:
        """Write a row for each encoder and number of boxes."""
        rows = []
        for name, by_count in self.scores.items():
            for count, score in by_count.items():
                rows.append([name, count, self.steps, *score])
        write_rows(file, ['encoder', 'boxes', 'steps', 'AP', 'AP50'], rows)


def write_rows(file: str | Path, header: list[str], rows: list[list]
               ) -> None:
    """Write a table as CSV."""
    with open(file, 'w', encoding='utf-8', newline='') as table:
        writer = csv.writer(table)
        writer.writerow(header)
        writer.writerows(rows)
