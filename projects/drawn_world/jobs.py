# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Commands that wait for each other, run side by side with live progress."""
import contextlib
import os
import queue
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from qbheat_mm.errors import UserError

#: Seconds between two lines of progress of one job.
PROGRESS_EVERY = 10
#: Lines that are shown of a command that failed.
TAIL = 25

#: glibc's malloc keeps the memory of a step for the next one instead of
#: giving it back, and takes large pages (since 2.35; older ones pass it over):
#: small models train faster, results are equal.
KEEP_MEMORY = {
    'MALLOC_MMAP_THRESHOLD_': str(2**30),
    'MALLOC_TRIM_THRESHOLD_': str(2**30),
    'GLIBC_TUNABLES': 'glibc.malloc.hugetlb=1'
}

_TRAINING = re.compile(
    r'Epoch\(train\)\s+\[(\d+)\]\[\s*(\d+)/(\d+)\].*?eta: (\S+).*?'
    r'\bloss: (\S+)')
_METRICS = re.compile(r'Epoch\((?:val|test)\).*?\]\s+([a-z]+/\S+: .*?)'
                      r'\s+data_time')


class JobFailed(RuntimeError):
    """A command ended with an error; the message holds its last lines.

    Or it could not be told, or what it left could not be read.
    """


@dataclass(frozen=True)
class Job:
    """A command and the names of the jobs whose results it needs.

    The command may be a function that is called when the job starts, for
    what is known only then.
    """
    name: str
    command: Sequence[str] | Callable[[], Sequence[str]]
    needs: Sequence[str] = ()


def describe(line: str) -> str | None:
    """What a line of a runner's log says about progress, if anything."""
    match = _TRAINING.search(line)
    if match:
        epoch, step, steps, eta, loss = match.groups()
        return f'epoch {epoch}, step {step} of {steps}, loss {loss}, ' \
               f'{eta} to go'
    return None


@contextlib.contextmanager
def ended_in_order() -> Iterator[None]:
    """Let SIGTERM, and a terminal that closes, end what runs here, too."""
    if threading.current_thread() is not threading.main_thread():
        yield  # others get no signals
        return

    def end(number, frame):
        for one in before:
            signal.signal(one, signal.SIG_IGN)
        sys.exit(128 + number)

    # nohup lets SIGHUP be ignored: so it stays
    before = {number: signal.getsignal(number)
              for number in (signal.SIGTERM, signal.SIGHUP)
              if signal.getsignal(number) != signal.SIG_IGN}
    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def describe_error(error: Exception) -> str:
    """Its message; of what is no error of the user its kind, too."""
    return str(error) if isinstance(error, UserError) else repr(error)


class JobRunner:
    """Runs jobs, two at a time by default, and tells how they get on.

    Small models use two cores better as two processes of one thread than as
    one process of two.

    Args:
        log_dir (Path): Gets the whole output of each job, ``NAME.log``.
        slots (int): Jobs at a time. Defaults to 2.
        say (Callable): Prints a line. Defaults to a flushing ``print``.
        until (float, optional): Reading of ``time.monotonic`` after which
            no job starts. Defaults to None.
        finished (Callable, optional): Called with each job that has ended
            well; what it raises is the job's failure. Defaults to None.
        failures (int): The failure that stops all others. What needs a job
            that failed is never started. Defaults to 1, the first.
        devices (Sequence[str]): Values of ``CUDA_VISIBLE_DEVICES``; each job
            gets one of them, that with the fewest jobs. Defaults to (), all
            jobs see what this process sees.
        holds (Sequence[int]): File descriptors that stay open as long as
            any of the jobs lives, as that of a lock. Defaults to ().

    Attributes:
        threads (str): How many each job has: OMP_NUM_THREADS, or its share
            of the cores.
        seconds (dict[str, float]): How long each job took.
        commands (dict[str, str]): What each job ran.
    """

    def __init__(self,
                 log_dir: Path,
                 slots: int = 2,
                 say: Callable[[str], None] | None = None,
                 until: float | None = None,
                 finished: Callable[[Job], None] | None = None,
                 failures: int = 1,
                 devices: Sequence[str] = (),
                 holds: Sequence[int] = ()) -> None:
        self.log_dir = log_dir
        self.slots = slots
        self.say = say or (lambda line: print(line, flush=True))
        self.until = until
        self.finished = finished
        self.failures = failures
        self.devices = devices
        self.holds = holds
        self.threads = os.environ.get('OMP_NUM_THREADS') or str(max(
            (os.cpu_count() or 1) // slots, 1))
        self.start = time.monotonic()
        self.seconds: dict[str, float] = {}
        self.commands: dict[str, str] = {}
        self._lines: queue.Queue = queue.Queue()
        self._running: dict[str, subprocess.Popen] = {}
        self._device_of: dict[str, str] = {}
        self._last_said: dict[str, float] = {}
        self._tails: dict[str, deque] = {}
        self._unwritten: dict[str, tuple[Path, OSError]] = {}
        self._failed: list[JobFailed] = []

    def run(self, jobs: Sequence[Job]) -> None:
        """Run all jobs, each as soon as what it needs is there.

        Args:
            jobs (Sequence[Job]): Earlier ones go first where several could
                start.

        Raises:
            JobFailed: One failed. The others have ended, or been stopped if
                ``failures`` have failed.
        """
        with ended_in_order():
            try:
                self._run(list(jobs))
            finally:
                self._stop_all()
        if self._failed:
            raise self._failed[0]

    def _run(self, waiting: list[Job]) -> None:
        done: set[str] = set()
        while True:
            for job in [j for j in waiting if done.issuperset(j.needs)]:
                if len(self._running) < self.slots and not self._is_late():
                    waiting.remove(job)
                    self._start(job)
            if not self._running:
                break
            job, line = self._lines.get()
            if line is not None:
                self._follow(job, line)
            elif self._finish(job):
                done.add(job.name)

    def _is_late(self) -> bool:
        return self.until is not None and time.monotonic() > self.until

    def _start(self, job: Job) -> None:
        try:
            command = job.command() if callable(job.command) else job.command
        except Exception as error:
            self._fail(job, f'could not start: {describe_error(error)}', error)
            return
        self.commands[job.name] = shlex.join(command)
        self._tell(job, f'$ {self.commands[job.name]}')
        environment = {
            **KEEP_MEMORY, **os.environ,
            'OMP_NUM_THREADS': self.threads, 'PYTHONUNBUFFERED': '1'
        }
        if self.devices:
            taken = [self._device_of[name] for name in self._running]
            self._device_of[job.name] = min(self.devices, key=taken.count)
            environment['CUDA_VISIBLE_DEVICES'] = self._device_of[job.name]
        process = subprocess.Popen(
            list(command),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors='replace',
            pass_fds=self.holds)
        self._running[job.name] = process
        self._tails[job.name] = deque(maxlen=TAIL)
        self.seconds[job.name] = -time.monotonic()
        threading.Thread(
            target=self._read, args=(job, process), daemon=True).start()

    def _read(self, job: Job, process: subprocess.Popen) -> None:
        """Pass on the output of a job, then None, from its own thread."""
        file = self.log_dir / f'{job.name}.log'  # names may have folders
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with open(file, 'w', encoding='utf-8') as log:
                for line in process.stdout:
                    log.write(line)
                    self._lines.put((job, line))
        except OSError as error:
            # it would wait for ever for somebody to read what it says
            self._unwritten[job.name] = file, error
            process.terminate()
            for line in process.stdout:
                self._lines.put((job, line))
        finally:
            self._lines.put((job, None))

    def _follow(self, job: Job, line: str) -> None:
        self._tails[job.name].append(line)
        metrics = _METRICS.search(line)
        if metrics:
            self._tell(job, ' '.join(metrics.group(1).split()))
            return
        progress = describe(line)
        now = time.monotonic()
        if progress and now > self._last_said.get(job.name,
                                                  0) + PROGRESS_EVERY:
            self._tell(job, progress)

    def _finish(self, job: Job) -> bool:
        """Whether a job that has ended has ended well."""
        process = self._running.pop(job.name)
        status = process.wait()
        self.seconds[job.name] += time.monotonic()
        if job.name in self._unwritten:
            file, error = self._unwritten[job.name]
            self._fail(
                job, f"was stopped: its log '{file}' cannot be written "
                f'({error.strerror or error}): make room, or correct the '
                'place', error)
            return False
        if status:
            self._fail(
                job, f'failed (status {status}) with the command\n'
                f'{self.commands[job.name]}\nIts last lines, all of them '
                f'are in {self.log_dir / job.name}.log:\n' +
                ''.join(self._tails[job.name]))
            return False
        try:
            if self.finished:
                self.finished(job)
        except Exception as error:
            self._fail(job, 'ended, but what it left cannot be used: '
                       f'{describe_error(error)}', error)
            return False
        self._tell(job, f'done in {self.seconds[job.name]:.0f} s')
        return True

    def _fail(self, job: Job, why: str, cause: Exception | None = None
              ) -> None:
        """Count a failure; the last that is allowed ends all."""
        error = JobFailed(f'{job.name} {why}')
        error.__cause__ = cause
        self._failed.append(error)
        if len(self._failed) == self.failures:
            raise error
        self._tell(job, why.splitlines()[0])

    def _tell(self, job: Job, text: str) -> None:
        now = time.monotonic()
        self._last_said[job.name] = now
        minutes, seconds = divmod(int(now - self.start), 60)
        self.say(f'[{minutes:02d}:{seconds:02d}] {job.name:20s} {text}')

    def _stop_all(self) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            process.wait()
