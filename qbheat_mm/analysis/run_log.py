# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Curves, last values and reconstructions of a run, from its log."""
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from ..datasets import spread
from ..report import Report, Table, command_line
from ..report.style import in_style, new_figure

#: Steps and values, ascending.
Points = list[tuple[float, Any]]

# In every line that mmengine writes.
_NOT_PLOTTED = {'step', 'iter', 'epoch', 'time', 'data_time', 'memory'}
#: Titles of panels and the names of their curves.
_PANELS = (
    ('training loss', r'(.+\.)?loss(_\w+)?|\w+\.loss\w*'),
    ('learning rate', r'(base_)?lr'),
    ('loss, learned and copied', r'analysis/loss(_copied)?'),
    ('loss by direction, W/2', r'analysis/loss_half_\w+'),
    ('loss by direction, W/4', r'analysis/loss_quarter_\w+'),
    ('norms of A and B', r'analysis/norm_\w+'),
    ('energies E(A) / E(B)', r'analysis/energy_ratio_\w+'),
    ('effective rank', r'analysis/effective_rank'),
    ('mean similarities', r'analysis/\w+_similarity\w*'),
    ('k-NN accuracy (%)', r'analysis/knn_\w+'),
    ('accuracy (%)', r'accuracy/.+'),
    ('COCO, boxes', r'coco/bbox_.+'),
    ('COCO, masks', r'coco/segm_.+'),
)
_PICTURE = re.compile(r'(reconstruction_\w+?)_(\d+)\.png')
_COLUMNS = 3
_DPI = 120


def report_run(work_dir: str) -> list[tuple[Report, list[bytes]]]:
    """Report the curves of a run and the reconstructions of its hook.

    Args:
        work_dir (str): Work folder of mmengine, also of a run in progress.

    Returns:
        list[tuple[Report, list[bytes]]]: Reports with the content of their
        pictures, PNG; empty without a log.
    """
    curves = read_curves(work_dir)
    if not curves:
        return []
    values = Table('Last values', ['name', 'step', 'value', 'from'], [
        [name, points[-1][0], float(points[-1][1]), float(points[0][1])]
        for name, points in curves.items()])
    report = Report(
        'curves', 'Training curves',
        'Training over steps, validation over epochs.', [values],
        pictures=['curves.png'], source=dict(command=command_line()))
    with in_style(), BytesIO() as file:
        draw_curves(curves).savefig(file, dpi=_DPI)
        return [(report, [file.getvalue()]), *_report_pictures(work_dir)]


def read_curves(work_dir: str) -> dict[str, Points]:
    """Read all curves of a run and its resumptions.

    Returns:
        dict[str, list[tuple[float, float]]]: Name to steps and values.
        Validation counts epochs where the run does.
    """
    return _merge(_read_log(file) for file in sorted(
        Path(work_dir).glob('*/vis_data/scalars.json')))


def _read_log(file: Path) -> dict[str, Points]:
    found = defaultdict(list)
    for text in file.read_text(encoding='utf-8').splitlines():
        try:
            line = json.loads(text)
            step = line['step']
        except (ValueError, KeyError, TypeError):
            continue  # the last line may be half written
        for name, value in line.items():
            if name not in _NOT_PLOTTED and isinstance(value, int | float):
                found[name].append((step, value))
    return found


def _merge(runs: Iterable[Mapping[str, Points]]) -> dict[str, Points]:
    """Merge a run and its resumptions, each up to the start of the next."""
    found = defaultdict(list)
    for run in runs:
        for name, points in run.items():
            found[name] = [point for point in found[name]
                           if point[0] < points[0][0]] + points
    return found


@in_style()
def draw_curves(curves: Mapping[str, Points]):
    """Draw the curves in panels, three in a row.

    Curves of no known panel get their own.
    """
    panels = {title: {} for title, _ in _PANELS}
    for name, points in curves.items():
        title = next((title for title, pattern in _PANELS
                      if re.fullmatch(pattern, name)), name)
        panels.setdefault(title, {})[name.split('/')[-1]] = points
    panels = {title: group for title, group in panels.items() if group}
    rows = -(-len(panels) // _COLUMNS)
    figure = new_figure(9.0, 2.5 * rows)
    axes = figure.subplots(rows, _COLUMNS).flatten()
    for axis, (title, group) in zip(axes, panels.items()):
        for name, points in group.items():
            axis.plot(*zip(*points), label=name,
                      marker='.' if len(points) < 30 else None)
        axis.set(title=title)
        axis.grid(alpha=0.3)
        if len(group) > 1:
            axis.legend()
    for axis in axes[len(panels):]:
        axis.set_axis_off()
    return figure


def _report_pictures(work_dir: str) -> list[tuple[Report, list[bytes]]]:
    """Report the last reconstruction of each position and three earlier."""
    positions = _merge(map(_find_pictures, sorted(
        Path(work_dir).glob('*/vis_data/vis_image'))))
    shown = []
    for name in sorted(positions):
        *earlier, (_, last) = positions[name]
        shown += [*(file for _, file in spread(earlier, 3)), last]
    if not shown:
        return []
    report = Report(
        'looks', 'Reconstructions during training',
        'Original, visible quarter, reconstruction; file names end in the '
        'step. Look for outlines that grow out of the visible quarter. The '
        'rest stays pale: the squared error favors the mean of all that is '
        'possible.',
        pictures=[str(file.relative_to(work_dir)) for file in shown])
    return [(report, [file.read_bytes() for file in shown])]


def _find_pictures(folder: Path) -> dict[str, Points]:
    found = defaultdict(list)
    for file in folder.glob('*.png'):
        if match := _PICTURE.fullmatch(file.name):
            found[match[1]].append((int(match[2]), file))
    return {name: sorted(files) for name, files in found.items()}
