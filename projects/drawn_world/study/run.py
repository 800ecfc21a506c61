# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Go on with the study: every finished run is a row, and is never run again.

Stop it at any time; what was running is lost, the rows stay.
"""
import argparse
import math
import sys
from collections import Counter
from pathlib import Path

from projects.drawn_world.jobs import JobFailed
from projects.drawn_world.study import Results, Study
from projects.drawn_world.study.design import ENCODER, Run
from projects.drawn_world.study.files import load_study
from projects.drawn_world.study.machine import default_devices, machine
from projects.drawn_world.study.place import Place
from projects.drawn_world.study.running import (
    check_settings,
    estimate,
    pending,
    run_study,
)
from qbheat_mm.cli import device, report_user_errors
from qbheat_mm.cli.command_line import folder, target
from qbheat_mm.errors import UserError

ROOT = Path(__file__).resolve().parents[3]
ARMS = Path(__file__).resolve().parent / 'arms.py'
DOCS = ROOT / 'docs'
# An installed package has no docs, and its own folder is not written to.
ROWS = (DOCS / 'evidence' / 'results.jsonl' if DOCS.is_dir() else
        Path('work_dirs/study/rows.jsonl').resolve())


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--study', type=Path, default=ARMS, metavar='FILE',
                        help='the file that declares arms and probes')
    parser.add_argument('--plan', action='store_true',
                        help='print what is left and how long it will take')
    parser.add_argument('--hours', type=float, metavar='N',
                        help='start nothing after N hours')
    parser.add_argument('--jobs', type=int, default=2,
                        help='commands side by side')
    parser.add_argument('--device', type=device, nargs='+', metavar='DEVICE',
                        help="as 'cuda:1' or 'cpu'; of several each run gets "
                        'one; by default all GPUs, else the CPU')
    parser.add_argument('--only', nargs='+', metavar='ARM',
                        help='these arms, and what they need')
    parser.add_argument('--seeds', type=int, nargs='+', metavar='SEED',
                        help='these seeds')
    parser.add_argument('--probes', nargs='+', metavar='PROBE',
                        help='these probes and the encoders they need; '
                        "'encoder' is the encoders' own training")
    parser.add_argument('--results', type=target, default=str(ROWS),
                        metavar='FILE', help='the file of rows')
    parser.add_argument('--work-dir', type=folder, metavar='FOLDER',
                        help='by default work_dirs/study; for the rows of '
                        'NAME.jsonl a folder NAME_runs beside it')
    parser.add_argument(
        '--cfg-options', nargs='+', default=(), metavar='KEY=VALUE',
        help='settings of all runs, to try the study on a few images; give '
        '--results too')
    args = parser.parse_args()
    args.results = Path(args.results).resolve()
    args.work_dir = Path(args.work_dir or (
        'work_dirs/study' if args.results == ROWS
        else args.results.parent / f'{args.results.stem}_runs')).resolve()
    return args


def check_rows(study: Path, results: Path) -> None:
    """Raise UserError where the rows are those of another study."""
    if study.resolve() != ARMS and results.resolve() == ROWS:
        raise UserError(f"--study {study}: the rows of '{ROWS}' are of "
                        f"'{ARMS}': give --results another file")


def check(args: argparse.Namespace, study: Study) -> None:
    """Raise UserError for arguments that make no study."""
    check_rows(args.study, args.results)
    for arm in args.only or ():
        if arm not in study.arm_names:
            raise UserError(f'--only {arm}: the arms are '
                            f'{", ".join(study.arm_names)}')
    stages = [ENCODER, *(probe.name for probe in study.probes)]
    for stage in args.probes or ():
        if stage not in stages:
            raise UserError(f'--probes {stage}: give some of '
                            f'{", ".join(stages)}')
    if args.jobs < 1:
        raise UserError(f'--jobs {args.jobs}: at least 1')
    if args.cfg_options and args.results == ROWS:
        raise UserError('--cfg-options would mix other runs with the rows of '
                        f"'{ROWS}': give --results another file")
    if not any(is_wanted(args, run) for run in study.runs()):
        raise UserError('no run of the study is of these --only, --seeds and '
                        '--probes: give others (--plan names the arms and '
                        'counts their runs)')


def is_wanted(args: argparse.Namespace, run: Run) -> bool:
    """Whether a run is among those that the arguments name."""
    return ((not args.only or run.arm in args.only) and
            (not args.seeds or run.seed in args.seeds) and
            (not args.probes or run.stage in args.probes))


def print_plan(study: Study, runs: list, results: Results,
               jobs: int) -> None:
    """What is there and what is to be run, arm by arm.

    An encoder whose checkpoint is not on this machine is run again for those
    that need it, though it has a row.
    """
    done = Counter(run.arm for run in study.runs() if run in results)
    whole = Counter(run.arm for run in study.runs())
    for arm in study.arms:
        mine = [run for run in runs if run.arm == arm.name]
        seconds, _ = estimate(study, results, mine, jobs)
        print(f'{arm.name:19}{done[arm.name]:4} of {whole[arm.name]:3} runs '
              f'done, {len(mine):3} to run, {seconds / 3600:5.1f} h   '
              f'{arm.title}')
    seconds, unknown = estimate(study, results, runs, jobs)
    timed = (f', about {seconds / 3600:.1f} hours with {jobs} side by side'
             if unknown < len(runs) else
             ', none was timed yet' if runs else '')
    print(f'{len(runs)} to run{timed}' + (
        f', and {unknown} that were never timed' if 0 < unknown < len(runs)
        else ''))


def main() -> None:
    """Plan or run."""
    args = parse_args()
    study, _ = load_study(args.study)
    check(args, study)
    devices = args.device or default_devices()
    results = Results(args.results, machine(devices))
    check_settings(study, results, args.cfg_options)
    place = Place(ROOT, args.work_dir, args.cfg_options, results.machine)
    runs = pending(study, results, place,
                   lambda run: is_wanted(args, run))
    if args.plan:
        print_plan(study, runs, results, args.jobs)
        return
    try:
        run_study(study, results, place, runs, args.jobs,
                  math.inf if args.hours is None else args.hours, devices)
    except JobFailed as error:
        raise UserError(str(error)) from error
    except KeyboardInterrupt:
        sys.exit('stopped: what was running is lost, the rows stay')
    left = pending(study, results, place)
    print(f'{len(left)} runs of the study left')


if __name__ == '__main__':
    report_user_errors(main)
