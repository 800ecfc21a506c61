# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The page of a comparison: its table, curves and nearest images."""
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.preprocessing import normalize

from ..datasets import fit, spread
from ..report import Report, Table, find_reports, render_page
from ..report.style import (
    BLUE,
    VERMILION,
    bare,
    in_style,
    new_figure,
    show_picture,
)
from .comparison import BoxComparison, Comparison

TITLE = 'Comparison of encoders'
NEIGHBORS = ('Below: {} (left) and their nearest neighbors among the '
             'training images, framed in blue if the class matches, '
             'in orange if not.')
CLASSES = ('Classifiers on frozen features, by number of labels (means over '
           'choices of labels). Encoders have ridge regression, thumbnails '
           'and HOG that or an RBF-kernel SVM. '
           + NEIGHBORS.format('images'))
BOXES = ('Detectors on frozen encoders after {} steps with the boxes of all '
         'training images and of a tenth of them. Training is far from '
         'converged: compare the ranks, not the AP. '
         + NEIGHBORS.format('crops of boxes'))
#: Images and their neighbors to show, and their size in pixels.
SHOWN, NEAREST, SIZE = 6, 5, 160


class Shown(NamedTuple):
    """Labeled images and their features.

    Attributes:
        features (np.ndarray): (N, D).
        labels (np.ndarray): (N, ), their classes.
        read (Callable): Maps an index to an image, (H, W, 3), BGR.
    """
    features: np.ndarray
    labels: np.ndarray
    read: Callable[[int], np.ndarray]


@in_style()
def draw_curves(scores: Mapping[str, Mapping[int, Sequence[float]]],
                labels: str, score: str) -> Figure:
    """Draw scores by number of labels, both with their names."""
    figure = new_figure(6, 3.5)
    axis = figure.subplots()
    for name, by_count in scores.items():
        means = [mean(values) for values in by_count.values()]
        axis.plot(list(by_count), means, marker='o', label=name)
    axis.set(xscale='log', xlabel=labels, ylabel=score)
    axis.set_ylim(top=100)
    axis.minorticks_off()
    axis.set_xticks(list(by_count), [str(count) for count in by_count])
    axis.legend()
    return figure


@in_style()
def draw_neighbors(title: str, train: Shown, test: Shown) -> Figure:
    """Draw some images, and the training images nearest to them by cosine.

    Args:
        title (str): What found them.
        train, test (Shown): The training images, and the others.
    """
    figure = new_figure(1.2 * (NEAREST + 1), 1.2 * SHOWN)
    figure.suptitle(title)
    axes = figure.subplots(SHOWN, NEAREST + 1, squeeze=False)
    for axis in axes.flat:
        bare(axis)
    vectors, others = normalize(train.features), normalize(test.features)
    for row, (first, *rest) in zip(spread(range(len(others)), SHOWN), axes):
        show_picture(first, _picture(test, row))
        nearest = np.argsort(-(vectors @ others[row]))[:NEAREST]
        for axis, i in zip(rest, nearest):
            show_picture(axis, _picture(train, i))
            is_same = train.labels[i] == test.labels[row]
            axis.spines[:].set(visible=True, linewidth=3,
                               color=BLUE if is_same else VERMILION)
    return figure


def _picture(shown: Shown, index: int) -> np.ndarray:
    return fit(shown.read(index), (SIZE, SIZE))[..., ::-1]


def report_classes(comparison: Comparison) -> Report:
    """Report accuracies by number of labels."""
    *few, most = comparison.counts
    table = Table(
        f'Top-1 in percent of {comparison.images} images',
        ['frozen encoder', *(f'{count} labels' for count in few),
         f'{most} labels', f'tran-1, {most} labels'])
    for name, by_count in comparison.accuracies.items():
        row = [name]
        for scores in by_count.values():
            row.append(f'{mean(scores):.1f}')
        score = comparison.probes.get(name)
        row.append('-' if score is None else f'{score:.1f}')
        table.rows.append(row)
    return Report('comparison', TITLE, CLASSES, [table],
                  dict(accuracies=comparison.accuracies))


def report_boxes(comparison: BoxComparison) -> Report:
    """Report AP by number of boxes, the best encoder first."""
    header = ['frozen encoder']
    for count in comparison.counts:
        header += [f'AP, {count} boxes', f'AP50, {count} boxes']
    table = Table(f'In percent, on {comparison.images} validation images',
                  header)
    for name in comparison.ranking(comparison.counts[-1]):
        row = [name]
        for score in comparison.scores[name].values():
            row += [f'{score.ap:.1f}', f'{score.ap50:.1f}']
        table.rows.append(row)
    return Report('comparison', TITLE, BOXES.format(comparison.steps),
                  [table], dict(scores=comparison.scores))


def write_page(out: Path, advice: str, report: Report,
               figures: Mapping[str, Figure]) -> None:
    """Write ``index.html`` and the report that it shows."""
    report.save(str(out), figures)
    (out / 'index.html').write_text(
        render_page(TITLE, advice, find_reports(str(out))), 'utf-8')
