# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The page of a comparison: its table, curves and nearest images."""
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

import numpy as np
from matplotlib.figure import Figure
from sklearn.preprocessing import normalize

from ..datasets import fit, read_image, spread
from ..report import Report, Table, find_reports, render_page
from ..report.style import in_style, new_figure, show_picture
from .comparison import Comparison

TITLE = 'Which encoder?'
CAPTION = ('Classifiers on frozen features, by number of labels (means over '
           'choices of labels), and images (left) with those that are nearest '
           'to them among the training images. Encoders have ridge '
           'regression, thumbnails and HOG that or an RBF-kernel SVM.')
#: Images and their neighbors to show, and their size in pixels.
SHOWN, NEIGHBORS, SIZE = 6, 5, 160


@in_style()
def draw_curves(accuracies: Mapping[str, Mapping[int, list[float]]]
                ) -> Figure:
    """Draw top-1 by number of labels."""
    figure = new_figure(6, 3.5)
    axis = figure.subplots()
    for name, by_count in accuracies.items():
        means = [mean(scores) for scores in by_count.values()]
        axis.plot(list(by_count), means, marker='o', label=name)
    axis.set(xscale='log', xlabel='labels', ylabel='top-1, %')
    axis.set_ylim(top=100)
    axis.minorticks_off()
    axis.set_xticks(list(by_count), [str(count) for count in by_count])
    axis.legend()
    return figure


@in_style()
def draw_neighbors(title: str, train: np.ndarray, test: np.ndarray,
                   files: Sequence[str], test_files: Sequence[str]) -> Figure:
    """Draw some images, and the training images nearest to them by cosine.

    Args:
        title (str): What found them.
        train (np.ndarray): Features of the training images, (N, D).
        test (np.ndarray): Features of the others, (M, D).
        files, test_files (Sequence[str]): Their files.
    """
    figure = new_figure(1.2 * (NEIGHBORS + 1), 1.2 * SHOWN)
    figure.suptitle(title)
    axes = figure.subplots(SHOWN, NEIGHBORS + 1, squeeze=False)
    train, test = normalize(train), normalize(test)
    for row, line in zip(spread(range(len(test)), SHOWN), axes):
        nearest = np.argsort(-(train @ test[row]))[:NEIGHBORS]
        shown = [test_files[row], *(files[i] for i in nearest)]
        for axis, file in zip(line, shown):
            show_picture(axis, fit(read_image(file), (SIZE, SIZE))[..., ::-1])
    return figure


def write_page(out: Path, comparison: Comparison,
               figures: Mapping[str, Figure]) -> None:
    """Write ``index.html`` and the report that it shows."""
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
    report = Report('comparison', TITLE, f'{CAPTION} {comparison.advice}',
                    [table], dict(accuracies=comparison.accuracies))
    report.save(str(out), figures)
    (out / 'index.html').write_text(
        render_page(TITLE, comparison.advice, find_reports(str(out))), 'utf-8')
