# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Run what is left of a study; every finished run adds a row to a file.

You can stop it at any time: rows stay, and finished runs are never repeated.
"""
import argparse
import datetime
import json
import math
import os
import platform
import runpy
import shlex
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from pathlib import Path
from statistics import mean

import torch

from projects.study import ENCODER, Study
from projects.study.jobs import Job, run_jobs
from projects.study.results import (
    Row,
    Run,
    add_row,
    read_metric,
    read_rows,
)
from qbheat_mm.cli.arguments import count
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
DRAWN_WORLD = ROOT / 'projects/drawn_world'
CONFIGS = dict(study=DRAWN_WORLD / 'configs/study',
               demo=DRAWN_WORLD / 'configs')
ARMS = DRAWN_WORLD / 'drawn_world.py'
DOCS = ROOT / 'docs'
#: Rows of the project's studies, by file.
OWN = {ROOT / 'projects/real_images/real_images.py':
       DOCS / 'evidence/real_images.jsonl',
       ARMS: DOCS / 'evidence/drawn_world.jsonl'}
#: File that trainings of encoders leave in their work folders.
WEIGHTS = 'encoder.safetensors'


def study_parser(description: str) -> argparse.ArgumentParser:
    """Create a parser with the arguments of run.py and report.py."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument('--study', type=Path, default=ARMS, metavar='FILE',
                        help='Python file that defines STUDY')
    return parser


def load_study(args: argparse.Namespace) -> tuple[Study, Path]:
    """Load the study, and name the file of its rows.

    Other studies NAME.py have theirs in ``work_dirs/NAME/rows.jsonl``.
    """
    file = args.study.resolve()
    return (runpy.run_path(str(args.study))['STUDY'],
            OWN.get(file, work_dir(file) / 'rows.jsonl'))


def work_dir(study: Path) -> Path:
    """Folder of all runs of a study."""
    name = 'study' if study.resolve() == ARMS else study.stem
    return Path('work_dirs', name).resolve()


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = study_parser(__doc__)
    parser.add_argument('--plan', action='store_true',
                        help='only print what is left and how long it takes')
    parser.add_argument('--hours', type=float, default=math.inf, metavar='N',
                        help='start nothing after N hours')
    parser.add_argument('--jobs', type=count, default=2,
                        help='runs at the same time')
    parser.add_argument('--only', nargs='+', metavar='ARM',
                        help='these arms, and the encoders they need')
    parser.add_argument('--seeds', type=int, nargs='+', metavar='SEED',
                        help='these seeds')
    parser.add_argument('--probes', nargs='+', metavar='PROBE',
                        help="these probes, and the encoders they need; "
                        "'encoder' stands for the encoders themselves")
    return parser.parse_args()


def pending(study: Study, rows: Collection[Run], folder: Path,
            wanted: Callable[[Run], bool] = lambda run: True) -> list[Run]:
    """List what is left, each run after the encoder it starts from.

    An encoder that has a row but no weights in ``folder`` is trained again.
    """
    order: dict[Run, None] = {}

    def require(run: Run) -> None:
        start = study.start(run)
        if start and not (start in rows
                          and (folder / str(start) / WEIGHTS).exists()):
            require(start)
        order[run] = None

    for run in study.runs():
        if run not in rows and wanted(run):
            require(run)
    return list(order)


def command(study: Study, folder: Path, run: Run) -> list[str]:
    """Command line of a run."""
    arm, start = study.arms[run.arm], study.start(run)
    stage = study.probes.get(run.stage, arm)
    place, _, name = stage.config.rpartition('/')
    config = CONFIGS.get(place, ROOT / 'configs' / place) / name
    options, data = [f'randomness.seed={run.seed}'], study.data(run)
    if data:
        options.append(f'train_dataloader.dataset.sizes={data}')
    if data and stage.metrics:
        options.append(f'val_dataloader.dataset.sizes={data}')
    options += [option.replace('{seed}', str(run.seed))
                for option in stage.options]
    encoder, tool = study.published(run), ROOT / 'tools/train.py'
    if start:
        encoder = str(folder / str(start) / WEIGHTS)
    arguments = [config, '--work-dir', folder / str(run)]
    if stage is not arm and stage.script:
        tool = stage.script
        arguments.insert(1, arm.features or encoder)
    elif encoder:
        options.append(f'encoder={encoder!r}')
    elif stage is not arm:
        options.append('model.backbone.init_cfg=None')
    return [sys.executable, str(tool), *map(str, arguments), '--cfg-options',
            *options]


def measured(study: Study, folder: Path, run: Run) -> dict[str, float]:
    """Read the metrics of a finished run.

    Raises:
        UserError: If one is missing or not finite.
    """
    stage, out = study.probes.get(run.stage), folder / str(run)
    if stage and stage.script:
        metrics = json.loads((out / 'metrics.json').read_text())
    else:
        logged = (stage or study.arms[run.arm]).metrics
        metrics = {name: read_metric(out, key) for name, key in logged.items()}
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise UserError(f"{name} of '{out}' is {value}")
    return {name: round(value, 4) for name, value in metrics.items()}


def provenance() -> dict[str, str]:
    """Commit, date and machine, for a row."""
    def git(*words: str) -> str:
        return subprocess.run(['git', '-C', str(ROOT), *words],
                              capture_output=True, text=True).stdout.strip()

    # The study itself changes files below docs.
    changed = git('status', '--porcelain', '-uno', '--', '.', ':!docs')
    processor = (torch.cuda.get_device_name() if torch.cuda.is_available()
                 else platform.machine())
    return dict(
        commit=git('rev-parse', '--short=12', 'HEAD') + (
            '-dirty' if changed else ''),
        date=datetime.date.today().isoformat(),
        machine=f'{processor}, {os.cpu_count()} cores, torch '
        f'{torch.__version__}, Python {platform.python_version()}')


def print_plan(study: Study, rows: dict[Run, Row], runs: list[Run],
               jobs: int) -> None:
    """Print what is done and what is left, question by question."""
    for question in study.questions:
        needed = study.question_runs(question)
        print(f'{question.name:16} {sum(run in rows for run in needed):3} of '
              f'{len(needed):3} done   {question.heading}')
    seconds = defaultdict(list)
    for run, row in rows.items():
        seconds[run.stage].append(row.cpu_seconds)
    hours = sum(mean(seconds[run.stage] or [0]) for run in runs) / 3600 / jobs
    print(f'{len(runs)} to run now, about {hours:.1f} hours of {jobs} cores '
          '(from the mean CPU times of finished runs)')


def main() -> None:
    """Plan or run."""
    args = parse_args()
    study, results = load_study(args)
    folder = work_dir(args.study)
    require_names(args.only, study.arms)
    require_names(args.probes, [ENCODER, *study.probes])

    def wanted(run: Run) -> bool:
        return (run.arm in (args.only or [run.arm])
                and run.seed in (args.seeds or [run.seed])
                and run.stage in (args.probes or [run.stage]))

    def left() -> list[Run]:
        return pending(study, read_rows(results), folder, wanted)

    if args.plan:
        print_plan(study, read_rows(results), left(), args.jobs)
        return
    run_all(study, results, folder, left(), args)
    print(f'{len(left())} left')


def require_names(names: Collection[str] | None,
                  existing: Collection[str]) -> None:
    """Raise UserError for a name that the study doesn't have."""
    for name in names or ():
        if name not in existing:
            raise UserError(f'the study has no {name!r}, but '
                            f'{", ".join(existing)}')


def run_all(study: Study, results: Path, folder: Path, runs: list[Run],
            args: argparse.Namespace) -> None:
    """Run what is left, and add a row for each run."""
    until = time.monotonic() + 3600 * args.hours
    rows, by_name = read_rows(results), {str(run): run for run in runs}
    source, jobs = provenance(), {}

    def finished(job: Job, seconds: float) -> None:
        run = by_name.get(job.name)
        if run is None:  # a data set
            return
        metrics = measured(study, folder, run)
        if run not in rows:
            line = shlex.join(['python', *(
                part.replace(f'{ROOT}/', '') for part in job.command[1:])])
            probe = study.probes.get(run.stage)
            add_row(results, Row(
                *run, metrics=metrics, cpu_seconds=round(seconds, 1),
                command=line, **source,
                probe_seed=run.seed if probe and probe.script else None))

    for run in runs:
        shutil.rmtree(folder / str(run), ignore_errors=True)
        needs = [str(study.start(run))] if study.start(run) in runs else []
        data = study.data(run)
        if data:  # drawn first, so that no run's time includes it
            jobs.setdefault(data, Job(data, [
                sys.executable, '-m', 'projects.drawn_world.data', '--sizes',
                data]))
            needs.append(data)
        jobs[str(run)] = Job(str(run), command(study, folder, run), needs)
    run_jobs(list(jobs.values()), folder / 'logs', args.jobs, until=until,
             finished=finished, keep_going=True)


if __name__ == '__main__':
    report_user_errors(main)
