# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Compare what is predicted on one GPU, at equal steps.

Every arm of every set is trained and judged in a process of its own, many at
a time: a small network leaves a GPU waiting for the next operator. Rows go to
OUT/gpu.jsonl as they come, with the name of the GPU; a second call continues.
"""
import argparse
import contextlib
import multiprocessing
import os
import runpy
import sys
import time
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch

from projects.real_images.real_images import (
    CLASSES,
    PROBES,
    TARGETS,
    arms,
)
from projects.study import ENCODER, Arm, Column, Question, Study
from projects.study.results import Row, Run, add_row, read_rows
from projects.study.run import WEIGHTS, command, measured, provenance
from qbheat_mm.cli.arguments import count
from qbheat_mm.cli.reporting import report_user_errors

JUDGES = [f'{judge}{few}' for judge in ('tran-1', 'lin', 'ridge')
          for few in ('', ', 120 labels', ', 30 labels')]


def targets(data: str) -> list[Arm]:
    """Arms of question 8."""
    names = [f'{data}-{name}' for name in TARGETS]
    return [arm for arm in arms(data) if arm.name in names]


def ask(data: str) -> Question:
    """Compare all arms on a set, without intervals: steps are equal."""
    columns = [Column(f'classes-{data}', judge, f'{data}-')
               for judge in JUDGES]
    return Question(f'gpu-{data}', f'What should it predict, on {data}?',
                    'tran-1', (), range(3), TARGETS, columns)


STUDY = Study(
    [*targets('steel'), *targets('clothing')], PROBES,
    [ask(data) for data in CLASSES],
    about="""\
The arms of question 8 of [PLAN.md](../projects/real_images/PLAN.md) on a GPU,
at 720 steps each instead of equal time. Plain distillation and random masking
encode four times the pixels in a step.""",
    title='What to predict, at equal steps', primary=3)


class Place(NamedTuple):
    """Where runs work, and where rows go.

    Attributes:
        work: Folder of the runs.
        rows: File of the rows.
        until: No run starts after this ``time.time()``.
        steps: Steps of every pre-training.
    """
    work: Path
    rows: Path
    until: float
    steps: int


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--out', type=Path, required=True)
    parser.add_argument('--work', type=Path, default=Path('work_dirs/gpu'))
    parser.add_argument('--jobs', type=count, default=14,
                        help='processes at a time')
    parser.add_argument('--steps', type=count, default=720)
    parser.add_argument('--minutes', type=float, default=6,
                        help='start nothing after N minutes')
    parser.add_argument('--sets', nargs='+', default=CLASSES)
    parser.add_argument('--seeds', type=int, nargs='+', default=(0, 1, 2))
    parser.add_argument('--arms', nargs='+', metavar='ARM',
                        help='such as qbheat, distilled; all by default')
    return parser.parse_args()


def run_script(arguments: Sequence[str], log: Path) -> None:
    """Run a script in this process, as from the command line."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, 'w', 1) as file, contextlib.redirect_stdout(
            file), contextlib.redirect_stderr(file):
        sys.argv = list(arguments)
        runpy.run_path(sys.argv[0], run_name='__main__')


def finish(place: Place, run: Run, options: Sequence[str]) -> None:
    """Run a stage and add its row, unless there is one."""
    is_done = run in read_rows(place.rows)
    if is_done and (run.stage != ENCODER or (
            place.work / str(run) / WEIGHTS).exists()):
        return
    arguments = [*command(STUDY, place.work, run)[1:], *options]
    start = time.process_time()
    run_script(arguments, place.work / 'logs' / f'{run}.log')
    if not is_done:
        add_row(place.rows, Row(
            *run, measured(STUDY, place.work, run),
            round(time.process_time() - start, 1),
            ' '.join(['python', *arguments]), **provenance()))


def work(place: Place, run: Run) -> str:
    """Pre-train and judge an arm; returns what to say about it."""
    if time.time() > place.until:
        return f'{run}: no time left'
    start = time.time()
    torch.set_num_threads(1)
    data = run.arm.partition('-')[0]
    try:
        finish(place, run, [
            f'train_cfg.max_iters={place.steps}',
            'train_dataloader.dataset.pipeline.0.cache=ram'])
        finish(place, run._replace(stage=f'classes-{data}'), ())
    except BaseException:  # report_user_errors exits
        return f'{run}: failed\n{traceback.format_exc()}'
    return f'{run}: {time.time() - start:.0f} s'


def main() -> None:
    """Encode the images by the teacher, then run arm by arm."""
    args = parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault('OMP_NUM_THREADS', '1')
    place = Place(args.work.resolve(), args.out.resolve() / 'gpu.jsonl',
                  time.time() + 60 * args.minutes, args.steps)
    names = {}
    for data in args.sets:
        for arm in targets(data):
            short = arm.name.removeprefix(f'{data}-')
            if not args.arms or short in args.arms:
                names.setdefault(data, []).append(arm.name)
    runs = [Run(arm, seed, ENCODER) for seed in args.seeds
            for data in args.sets for arm in names[data]]
    context = multiprocessing.get_context('spawn')
    teachers = [context.Process(target=encode_images, args=(
        place, Run(f'{data}-teacher', 99, ENCODER))) for data in args.sets]
    for process in teachers:  # may have workers, unlike those of a pool
        process.start()
    for process in teachers:
        process.join()
    failed = False
    with context.Pool(args.jobs, maxtasksperchild=1) as workers:
        for said in workers.imap_unordered(partial(work, place), runs, 1):
            print(said, flush=True)
            failed |= ': failed\n' in said
    sys.exit(failed)


def encode_images(place: Place, run: Run) -> None:
    """Write the maps that all arms of a set share."""
    start = time.time()
    run_script([*command(STUDY, place.work, run)[1:],
                'train_cfg.max_iters=1', 'train_dataloader.num_workers=6'],
               place.work / 'logs' / f'{run}.log')
    print(f'{run}: encoded in {time.time() - start:.0f} s', flush=True)


if __name__ == '__main__':
    report_user_errors(main)
