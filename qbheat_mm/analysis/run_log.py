# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What has a run logged so far? Curves, last values and reconstructions."""
import json
import os.path as osp
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from glob import escape, glob
from io import BytesIO
from pathlib import Path

from ..datasets import spread
from .report import Report, Table
from .style import COLORS, as_written, grid, in_style, new_figure

Points = list[tuple[float, float]]

#: What mmengine writes into every line and nobody plots.
_NOT_PLOTTED = {'step', 'iter', 'epoch', 'time', 'data_time', 'memory'}
#: Titles of panels and the names of their curves.
_PANELS = (
    ('training loss', r'(.+\.)?loss(_\w+)?|\w+\.loss\w*'),
    ('learning rate', r'(base_)?lr'),
    ('loss with A and B, and of copies', r'analysis/loss(_copied)?'),
    ('loss by direction, half a step', r'analysis/loss_half_\w+'),
    ('loss by direction, a quarter', r'analysis/loss_quarter_\w+'),
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
    """Report what a run has logged, and how its pictures have changed.

    Args:
        work_dir (str): Of a run of mmengine, finished or not.

    Returns:
        list[tuple[Report, list[bytes]]]: Reports with the content of their
        pictures, PNG; empty without a log.
    """
    logs = read_logs(work_dir)
    if not logs:
        return []
    curves = merge_curves(logs)
    report = Report(
        'curves', 'While it trained',
        'Over the steps of the run; validation over its epochs. '
        + _progress(logs[-1]),
        tables=[Table('Last values', ['name', 'step', 'value', 'from'], [
            [name, points[-1][0], float(points[-1][1]), float(points[0][1])]
            for name, points in curves.items()])],
        numbers=dict(is_pretraining='analysis/loss' in curves),
        source=dict(command=shlex.join(['python', *sys.argv]),
                    work_dir=work_dir))
    content = []
    if curves:
        report.pictures.append('curves.png')
        with in_style(), BytesIO() as file:
            draw_curves(panels(curves)).savefig(file, dpi=_DPI)
            content.append(file.getvalue())
    return [(report, content), *_report_pictures(work_dir)]


def read_curves(work_dir: str) -> dict[str, Points]:
    """Read all curves of a run, see :func:`merge_curves`."""
    return merge_curves(read_logs(work_dir))


def read_logs(work_dir: str) -> list[list[dict]]:
    """Read the lines of ``scalars.json`` of a run and its resumptions."""
    files = sorted(glob(osp.join(escape(work_dir), '*', 'vis_data',
                                 'scalars.json')))
    logs = []
    for file in files:
        lines = []
        for line in Path(file).read_text(encoding='utf-8').splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:  # the last line may be half written
                continue
        logs.append([line for line in lines if isinstance(line, dict)])
    return [log for log in logs if log]


def merge_curves(logs: Iterable[Sequence[Mapping]]) -> dict[str, Points]:
    """Merge the curves of a run and of those that resumed it.

    Args:
        logs (Iterable[Sequence[Mapping]]): Of :func:`read_logs`, in the order
            of time. Where a later one begins, the earlier one ends.

    Returns:
        dict[str, list[tuple[float, float]]]: Name to steps and values.
        Validation counts epochs where the run does.
    """
    found: dict[str, Points] = {}
    for lines in logs:
        new: dict[str, Points] = {}
        for line in lines:
            for name, value in line.items():
                if name not in _NOT_PLOTTED and 'step' in line and isinstance(
                        value, int | float):
                    new.setdefault(name, []).append((line['step'], value))
        for name, points in new.items():
            kept = [point for point in found.get(name, [])
                    if point[0] < points[0][0]]
            found[name] = kept + points
    return found


def panels(curves: Mapping[str, Points]) -> dict[str, dict[str, Points]]:
    """Group curves by panel: title to short names and points.

    Curves of no known panel have one of their own.
    """
    drawn: dict[str, dict[str, Points]] = {
        title: {} for title, _ in _PANELS}
    for name, points in curves.items():
        title = next((title for title, pattern in _PANELS
                      if re.fullmatch(pattern, name)), name)
        drawn.setdefault(title, {})[name.split('/')[-1]] = points
    return {title: group for title, group in drawn.items() if group}


@in_style()
def draw_curves(groups: Mapping[str, Mapping[str, Points]]):
    """Draw the groups of :func:`panels`, three in a row."""
    rows = -(-len(groups) // _COLUMNS)
    figure = new_figure(9.0, 2.5 * rows)
    axes = grid(figure, rows, _COLUMNS).flatten()
    dashes = ('-', '--', ':', '-.')
    for axis, (title, curves) in zip(axes, groups.items()):
        for i, (name, points) in enumerate(curves.items()):
            axis.plot(*zip(*points), label=as_written(name),
                      color=COLORS[i % len(COLORS)],
                      linestyle=dashes[i // len(COLORS) % len(dashes)],
                      marker='.' if len(points) < 30 else None)
        axis.set(title=title)
        axis.grid(alpha=0.3)
        if len(curves) > 1:
            axis.legend(fontsize=6)
    for axis in axes[len(groups):]:
        axis.set_axis_off()
    return figure


def _progress(lines: list[dict]) -> str:
    """Tell in a sentence how far a run is."""
    trained = [line for line in lines if 'loss' in line]
    if not trained:
        return 'It has not trained yet.'
    last = trained[-1]
    epoch = f'epoch {last["epoch"]}, ' if 'epoch' in last else ''
    pace = f', {last["time"]:.3g} s a step' if isinstance(
        last.get('time'), int | float) else ''
    return f'The last line of training: {epoch}step {last["step"]}{pace}.'


def _report_pictures(work_dir: str) -> list[tuple[Report, list[bytes]]]:
    """Report the reconstructions of ``AnalysisHook``, if any.

    Of each position the last one and three before. Where a later run begins,
    the earlier one ends.
    """
    positions: dict[str, dict[int, str]] = {}
    for folder in sorted(glob(osp.join(escape(work_dir), '*', 'vis_data'))):
        new: dict[str, dict[int, str]] = {}
        for file in glob(osp.join(escape(folder), 'vis_image', '*.png')):
            if match := _PICTURE.fullmatch(osp.basename(file)):
                new.setdefault(match[1], {})[int(match[2])] = file
        for name, files in new.items():
            positions[name] = {
                step: file for step, file in positions.get(name, {}).items()
                if step < min(files)} | dict(sorted(files.items()))
    shown = []
    for name in sorted(positions):
        *earlier, last = positions[name].values()
        shown += [*spread(earlier, 3), last]
    if not shown:
        return []
    report = Report(
        'looks', 'Reconstructions while it trained',
        'Original, visible quarter, reconstruction; file names end in the '
        'step. Nothing is taken from the masked pixels.',
        pictures=[osp.relpath(file, work_dir) for file in shown],
        source=dict(work_dir=work_dir))
    return [(report, [Path(file).read_bytes() for file in shown])]
