# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Run commands that depend on each other, several at a time."""
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

from qbheat_mm.errors import UserError

#: glibc's malloc keeps the memory of one step for the next and uses large
#: pages (from 2.35 on): small models train faster, with equal results.
KEEP_MEMORY = {'MALLOC_MMAP_THRESHOLD_': str(2**30),
               'MALLOC_TRIM_THRESHOLD_': str(2**30),
               'GLIBC_TUNABLES': 'glibc.malloc.hugetlb=1'}
#: Lines of a log to show: metrics, and progress every 10 seconds.
METRICS = re.compile(r'Epoch\((?:val|test)\).*?([a-z]+/\S+: .*?)\s+data_time')
PROGRESS = re.compile(r'\(train\)\s+(\[.*\]).*(eta: \S+).*\s(loss: \S+)')


class Job(NamedTuple):
    """A named command and the jobs that must succeed before it starts."""
    name: str
    command: Sequence[str]
    needs: Sequence[str] = ()


def run_jobs(jobs: Sequence[Job], log_dir: Path, slots: int = 2, *,
             until: float = math.inf,
             finished: Callable[[Job, float], None] = lambda *_: None,
             keep_going: bool = False) -> None:
    """Run jobs in subprocesses, earlier ones first where several could start.

    Args:
        jobs (Sequence[Job]): The jobs.
        log_dir (Path): Gets the output of each job, ``NAME.log``.
        slots (int): Jobs that run at the same time. Defaults to 2.
        until (float): No job starts after this ``time.monotonic()``.
        finished (Callable): Called with each job that succeeded and its
            CPU seconds; if it raises, the job has failed.
        keep_going (bool): After a failure, run what does not depend on it.
            Defaults to False: stop everything.

    Raises:
        UserError: A command failed; its last lines have been printed.
    """
    waiting, running, done, errors = list(jobs), {}, set(), []
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ThreadPoolExecutor(slots) as pool:
        try:
            while True:
                for job in [j for j in waiting if done.issuperset(j.needs)]:
                    if len(running) < slots and time.monotonic() < until:
                        waiting.remove(job)
                        process = _start(job, slots)
                        future = pool.submit(_follow, job, process, log_dir)
                        running[future] = job, process
                if not running:
                    break
                for future in wait(running, None, FIRST_COMPLETED).done:
                    job, _ = running.pop(future)
                    try:
                        seconds, of_cpu = future.result()
                        finished(job, of_cpu)
                        done.add(job.name)
                        _say(job, f'done in {seconds:.0f} s')
                    except Exception as error:
                        if not keep_going:
                            raise
                        _say(job, str(error))
                        errors.append(error)
        finally:
            for _, process in running.values():
                process.terminate()
            signal.signal(signal.SIGTERM, before)
    if errors:
        raise errors[0]


def _start(job: Job, slots: int) -> subprocess.Popen:
    """Start a process with its share of the cores."""
    _say(job, f'$ {shlex.join(job.command)}')
    return subprocess.Popen(
        job.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors='replace', env={
            'OMP_NUM_THREADS': str(max((os.cpu_count() or 1) // slots, 1)),
            **KEEP_MEMORY, **os.environ, 'PYTHONUNBUFFERED': '1'})


def _follow(job: Job, process: subprocess.Popen,
            log_dir: Path) -> tuple[float, float]:
    """Write the log of a process; return its seconds and its CPU seconds."""
    start = said = time.monotonic()
    path = log_dir / f'{job.name}.log'
    with process:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, 'w', 1, encoding='utf-8') as log:
            for line in process.stdout:
                log.write(line)
                shown = METRICS.search(line) or (
                    time.monotonic() > said + 10 and PROGRESS.search(line))
                if shown:
                    said = time.monotonic()
                    _say(job, ' '.join(shown.groups()))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        print(*path.read_text(encoding='utf-8').splitlines()[-25:], sep='\n')
        raise UserError(f"{job.name} failed with status {process.returncode}, "
                        f"see '{path}': {shlex.join(job.command)}")
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime


def _say(job: Job, text: str) -> None:
    print(f'[{time.strftime("%H:%M:%S")}] {job.name:20s} {text}', flush=True)
