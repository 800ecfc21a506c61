# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Metrics of finished runs: their logs, and the study's file of rows."""
import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from qbheat_mm.errors import UserError

#: How long a run took, beside its metrics.
CPU_MINUTES = 'CPU minutes'


class Run(NamedTuple):
    """A run of the study: an arm's encoder or one of its probes, one seed."""
    arm: str
    seed: int
    stage: str

    def __str__(self) -> str:
        return f'{self.arm}/{self.seed}/{self.stage}'


def read_log(work_dir: Path) -> list[dict]:
    """Read the log of the latest run in a work folder, one dict per line.

    Raises:
        UserError: If nothing was logged.
    """
    logs = sorted(work_dir.glob('*/vis_data/scalars.json'))
    if not logs:
        raise UserError(f"'{work_dir}' has no log (TIME/vis_data/"
                        'scalars.json): did the run end?')
    lines = logs[-1].read_text(encoding='utf-8').splitlines()
    return [json.loads(line) for line in lines]


def read_metric(work_dir: Path, name: str) -> float:
    """Read a metric in percent, by default of the last evaluation.

    ``NAME@N`` stands for that of the N-th evaluation, from 0. mmdet logs no
    AP for a detector without detections: it is 0.

    Raises:
        UserError: If the run was not evaluated.
    """
    name, _, number = name.partition('@')
    of_coco = name.startswith('coco/')
    values = [line.get(name, 0.) for line in read_log(work_dir)
              if name in line or (of_coco and 'loss' not in line)]
    if not values:
        raise UserError(f"the log of '{work_dir}' has no '{name}': was the "
                        'run evaluated?')
    value = values[int(number or -1)]
    return value * 100 if of_coco else value


class Row(msgspec.Struct, omit_defaults=True):
    """A finished run of the study, a line of its JSON Lines file.

    ``probe_seed`` initialized the classifiers of a script; where it is
    missing, it was 0.
    """
    arm: str
    seed: int
    stage: str
    metrics: dict[str, float]
    cpu_seconds: float
    command: str
    commit: str
    date: str
    machine: str
    probe_seed: int | None = None

    @property
    def run(self) -> Run:
        """The run that it records."""
        return Run(self.arm, self.seed, self.stage)


def read_rows(path: Path) -> dict[Run, Row]:
    """Read the rows of a study; none if there is no file yet.

    Raises:
        UserError: If a line is not a row, or a run has two rows.
    """
    rows = {}
    lines = path.read_bytes().splitlines() if path.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            row = msgspec.json.decode(line, type=Row)
        except msgspec.DecodeError as error:
            raise UserError(f"'{path}', line {number}: {error}") from error
        if row.run in rows:
            raise UserError(f"'{path}' has two rows of {row.run}: remove one")
        rows[row.run] = row
    return rows


def add_row(path: Path, row: Row) -> None:
    """Append a row to the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, 'ab') as file:
        file.write(msgspec.json.encode(row) + b'\n')


def values(rows: Mapping[Run, Row], arm: str, stage: str,
           metric: str) -> dict[int, float]:
    """Collect a metric of an arm, or its ``'CPU minutes'``, by seed."""
    by_seed = {}
    for run in sorted(rows):
        if (run.arm, run.stage) != (arm, stage):
            continue
        row = rows[run]
        metrics = dict(row.metrics)
        if row.cpu_seconds:
            metrics[CPU_MINUTES] = row.cpu_seconds / 60
        if metric in metrics:
            by_seed[run.seed] = metrics[metric]
    return by_seed
