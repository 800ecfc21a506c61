# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Curves, last values and reconstructions of a run, from its log."""
import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from ..datasets import spread
from ..report import Report, Table, command_line
from ..report.style import in_style, new_figure

# In every line that mmengine writes.
_NOT_PLOTTED = {'step', 'iter', 'epoch', 'time', 'data_time', 'memory',
                'images_per_second'}
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


class Point(NamedTuple):
    """A value, or the file of a picture, of one step."""
    step: float
    value: Any


#: By name, in ascending steps.
Series = dict[str, list[Point]]


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
    rows = []
    for name, points in curves.items():
        first, last = points[0], points[-1]
        rows.append([name, last.step, float(last.value), float(first.value)])
    values = Table('Last values', ['name', 'step', 'value', 'from'], rows)
    report = Report(
        'curves', 'Training curves',
        'Training over steps, validation over epochs.', [values],
        pictures=['curves.png'], source=dict(command=command_line()))
    with in_style(), BytesIO() as file:
        draw_curves(curves).savefig(file, dpi=_DPI)
        return [(report, [file.getvalue()]), *_report_pictures(work_dir)]


def read_curves(work_dir: str) -> Series:
    """Read all curves of a run and its resumptions.

    Returns:
        dict[str, list[Point]]: Name to steps and values. Validation counts
        epochs where the run does.
    """
    return _merge(work_dir, 'scalars.json', _read_log)


def _read_log(file: Path) -> Series:
    curves = defaultdict(list)
    for text in file.read_text(encoding='utf-8').splitlines():
        try:
            line = json.loads(text)
            step = line['step']
        except (ValueError, KeyError, TypeError):
            continue  # the last line may be half written
        for name, value in line.items():
            if name not in _NOT_PLOTTED and isinstance(value, int | float):
                curves[name].append(Point(step, value))
    return curves


def _merge(work_dir: str, file: str,
           read: Callable[[Path], Series]) -> Series:
    """Merge a run and its resumptions, each up to the start of the next."""
    merged = defaultdict(list)
    for path in sorted(Path(work_dir).glob(f'*/vis_data/{file}')):
        for name, points in read(path).items():
            earlier = [point for point in merged[name]
                       if point.step < points[0].step]
            merged[name] = earlier + points
    return merged


def draw_curves(curves: Mapping[str, list[Point]]) -> Figure:
    """Draw the curves of a run; those of no known panel get their own."""
    panels = {title: {} for title, _ in _PANELS}
    for name, points in curves.items():
        panel = panels.setdefault(_panel_of(name), {})
        panel[name.split('/')[-1]] = points
    return draw_panels({
        title: group for title, group in panels.items() if group})


@in_style()
def draw_panels(panels: Mapping[str, Mapping[str, list[Point]]]) -> Figure:
    """Draw curves by name in panels by title, three in a row."""
    rows = -(-len(panels) // _COLUMNS)
    figure = new_figure(9.0, 2.5 * rows)
    axes = figure.subplots(rows, _COLUMNS).flatten()
    for axis, (title, group) in zip(axes, panels.items()):
        for name, points in group.items():
            steps, values = np.transpose(points)
            axis.plot(steps, values, label=name,
                      marker='.' if len(points) < 30 else None)
        axis.set(title=title)
        axis.grid(alpha=0.3)
        if len(group) > 1:
            axis.legend()
    for axis in axes[len(panels):]:
        axis.set_axis_off()
    return figure


def _panel_of(curve: str) -> str:
    """Return the title of a curve's panel, by default its own name."""
    for title, pattern in _PANELS:
        if re.fullmatch(pattern, curve):
            return title
    return curve


def _report_pictures(work_dir: str) -> list[tuple[Report, list[bytes]]]:
    """Report the last reconstruction of each position and three earlier."""
    shown = []
    for _, points in sorted(
            _merge(work_dir, 'vis_image', _find_pictures).items()):
        *earlier, last = points
        shown += [*spread(earlier, 3), last]
    if not shown:
        return []
    files, contents = [], []
    for point in shown:
        files.append(str(point.value.relative_to(work_dir)))
        contents.append(point.value.read_bytes())
    report = Report(
        'looks', 'Reconstructions during training',
        'Original, visible quarter, reconstruction; file names end in the '
        'step. Look for outlines that grow out of the visible quarter. The '
        'rest stays pale: the squared error favors the mean of all that is '
        'possible.',
        pictures=files)
    return [(report, contents)]


def _find_pictures(folder: Path) -> Series:
    pictures = defaultdict(list)
    for file in folder.glob('*.png'):
        match = _PICTURE.fullmatch(file.name)
        if match:
            pictures[match[1]].append(Point(int(match[2]), file))
    for points in pictures.values():
        points.sort()
    return pictures
