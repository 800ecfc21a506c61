# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The results file of a study: one JSON object a line, only added to."""
import contextlib
import fcntl
import json
import math
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from qbheat_mm.errors import UserError

from .design import Run


class Results:
    """Rows of finished runs.

    Each row holds ``arm``, ``seed``, ``stage``, ``metrics`` (a dict),
    ``seconds``, ``command``, ``commit``, ``machine`` and ``date``; later ones
    ``settings`` (see :meth:`Study.settings`) and ``cfg_options``, those of
    all runs, too. Rows of several machines may stand in one file; those of
    one machine are taken.

    Args:
        path (Path): The file; need not be there.
        machine (str): Whose rows count.

    Attributes:
        rows (dict[Run, dict]): Those of the machine.
        machines (list[str]): Whose rows the file had when it was read.

    Raises:
        UserError: A line is no row, or two are of one run. The last line may
            be cut, by a kill.
    """

    def __init__(self, path: Path, machine: str) -> None:
        self.path = path
        self.machine = machine
        self.rows: dict[Run, dict] = {}
        everything = list(self._read())
        self.machines = sorted({row['machine'] for row in everything})
        for row in everything:
            if row['machine'] == machine:
                self._take(Run(row['arm'], row['seed'], row['stage']), row)

    def _take(self, run: Run, row: dict) -> None:
        if run in self.rows:
            raise UserError(
                f"'{self.path}' has two rows of {run} on '{self.machine}', as "
                'of files that were joined: remove one of them')
        self.rows[run] = row

    def _read(self) -> Iterator[dict]:
        if not self.path.exists():
            return
        lines = self.path.read_text(encoding='utf-8').split('\n')
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                _check(row)
            except (ValueError, LookupError, TypeError) as error:
                if number == len(lines):
                    continue  # cut, by a kill
                raise UserError(
                    f"'{self.path}', line {number}, is no row of results "
                    f'({error!r}): mend or remove it') from error
            yield row

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other studies from adding to the file.

        Raises:
            UserError: One does.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, 'ab') as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UserError(
                    f"another study adds to '{self.path}': wait for its end, "
                    'or give --results another file') from error
            yield

    def __contains__(self, run: Run) -> bool:
        return run in self.rows

    def add(self, run: Run, row: dict) -> None:
        """Write a row so that it survives whatever happens afterwards."""
        row = dict(run._asdict(), machine=self.machine, **row)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, 'a+b') as file:
            file.seek(0)
            whole, _, last = file.read().rpartition(b'\n')
            if _is_cut(last):  # by a kill
                file.truncate(len(whole) + 1 if whole else 0)
            elif last:  # by an editor that ends no line
                file.write(b'\n')
            file.write(json.dumps(row).encode() + b'\n')
            file.flush()
            os.fsync(file.fileno())
        self.rows[run] = row

    def seconds(self, run: Run) -> float | None:
        """Measured time of a run, or None if it has not been run."""
        return self.rows[run]['seconds'] if run in self.rows else None

    def mean_seconds(self) -> dict[tuple[str, str], float]:
        """Mean time by arm and stage."""
        times = defaultdict(list)
        for run, row in self.rows.items():
            times[run.arm, run.stage].append(row['seconds'])
        return {key: sum(values) / len(values)
                for key, values in times.items()}

    def has_stage(self, arm: str, stage: str) -> bool:
        """Whether a stage of an arm was run, for any seed."""
        return any((run.arm, run.stage) == (arm, stage) for run in self.rows)

    def values(self, arm: str, stage: str, metric: str) -> dict[int, float]:
        """A metric of an arm by seed."""
        return {
            run.seed: row['metrics'][metric]
            for run, row in sorted(self.rows.items())
            if (run.arm, run.stage) == (arm, stage)
            and metric in row['metrics']
        }


def _check(row: dict) -> None:
    """Raise for what is not as :meth:`Results.add` writes it."""
    for key, kind in (('arm', str), ('stage', str), ('machine', str),
                      ('seed', int), ('seconds', (int, float)),
                      ('metrics', dict)):
        if not isinstance(row[key], kind):
            raise TypeError(f'{key} is {row[key]!r}')
    for name, value in row['metrics'].items():
        if not (isinstance(value, (int, float)) and math.isfinite(value)):
            raise TypeError(f'{name} is {value!r}')


def _is_cut(line: bytes) -> bool:
    """Whether a last line was not written to its end."""
    try:
        return bool(line) and not isinstance(json.loads(line), dict)
    except ValueError:
        return True
