# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Reports on a run from what it has written so far."""
import json
import os.path as osp
import re
import shlex
import sys
from glob import escape, glob
from io import BytesIO

from ..analysis.figures.curves import draw_curves
from ..analysis.figures.style import in_style
from ..analysis.report import Report, Table
from ..analysis.run_log import curves, panels
from ..datasets.image_lists import spread

_PICTURE = re.compile(r'(reconstruction_\w+?)_(\d+)\.png')
_DPI = 120


def report_run(work_dir: str) -> list[dict]:
    """What a run has logged, and how its pictures have changed.

    Args:
        work_dir (str): Of a run of mmengine, ended or not.

    Returns:
        list[dict]: Reports for :func:`qbheat_mm.analysis.story.tell`; a
        picture that is drawn here is under ``'content'``. Empty where there
        is no log.
    """
    folders = sorted(glob(osp.join(escape(work_dir), '*', 'vis_data')))
    logs = [lines for folder in folders
            if (lines := _read(osp.join(folder, 'scalars.json')))]
    if not logs:
        return []
    reports = [_report_curves(work_dir, logs)]
    pictures = [glob(osp.join(escape(folder), 'vis_image',
                              'reconstruction_*.png')) for folder in folders]
    return reports + ([_report_pictures(work_dir, pictures)]
                      if any(pictures) else [])


def _read(file: str) -> list[dict]:
    """Lines of a log, of which the last may be half written."""
    if not osp.isfile(file):
        return []
    with open(file, encoding='utf-8') as stream:
        lines = stream.read().splitlines()
    found = []
    for line in lines:
        try:
            content = json.loads(line)
        except ValueError:
            continue
        if isinstance(content, dict):
            found.append(content)
    return found


def _report_curves(work_dir: str, logs: list[list[dict]]) -> dict:
    found = curves(logs)
    drawn = panels(found)
    report = Report(
        analysis='curves', title='While it trained',
        caption='Over the steps of the run; what was validated, over its '
        'epochs. ' + _standing(logs[-1]),
        tables=[Table('Last values', ['name', 'step', 'value', 'from'], [
            [name, points[-1][0], float(points[-1][1]), float(points[0][1])]
            for name, points in found.items()])],
        numbers=dict(is_pretraining='analysis/loss' in found),
        source=dict(command=shlex.join(['python', *sys.argv]),
                    work_dir=work_dir))
    content = {}
    if drawn:
        report.pictures.append('curves.png')
        with in_style(), BytesIO() as file:
            draw_curves(drawn).savefig(file, dpi=_DPI)
            content['curves.png'] = file.getvalue()
    return dict(report.as_json(), folder=work_dir, content=content)


def _standing(lines: list[dict]) -> str:
    """Where a run stands, in a sentence."""
    trained = [line for line in lines if 'loss' in line]
    if not trained:
        return 'It has not trained yet.'
    last = trained[-1]
    epoch = f'epoch {last["epoch"]}, ' if 'epoch' in last else ''
    pace = f', {last["time"]:.3g} s a step' if isinstance(
        last.get('time'), int | float) else ''
    return f'The last line of training: {epoch}step {last["step"]}{pace}.'


def _report_pictures(work_dir: str, runs: list[list[str]]) -> dict:
    """The reconstructions of ``AnalysisHook``, early ones and the last."""
    places: dict[str, dict[int, str]] = {}
    for files in runs:
        for place, drawn in _by_place(files).items():
            # Where a later run begins, the earlier one ends.
            kept = {step: file for step, file in places.get(place, {}).items()
                    if step < min(drawn)}
            places[place] = kept | drawn
    shown = [file for place in sorted(places)
             for file in _few(list(places[place].values()))]
    report = Report(
        analysis='looks', title='Reconstructions while it trained',
        caption='Original, visible quarter, reconstruction; the number in '
        'the name of a file is the step. Nothing is taken from the masked '
        'pixels.',
        pictures=[osp.relpath(file, work_dir) for file in shown],
        source=dict(work_dir=work_dir))
    return dict(report.as_json(), folder=work_dir)


def _by_place(files: list[str]) -> dict[str, dict[int, str]]:
    """Pictures by the place of the visible quarter and, in order, steps."""
    places: dict[str, dict[int, str]] = {}
    for file in files:
        if match := _PICTURE.fullmatch(osp.basename(file)):
            places.setdefault(match[1], {})[int(match[2])] = file
    return {place: dict(sorted(steps.items()))
            for place, steps in places.items()}


def _few(files: list[str], most: int = 4) -> list[str]:
    """The last one, and some that are spread over those before."""
    return spread(files[:-1], most - 1) + files[-1:]
