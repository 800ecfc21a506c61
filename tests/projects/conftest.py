# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A study, and its commands in one process, which imports once."""
import shlex
import time

import pytest

from projects.study import (
    CLASSIFY,
    ENCODER,
    Arm,
    Column,
    Pair,
    Probe,
    Question,
    Study,
    jobs,
)

from ..helpers.tools import run_tool


@pytest.fixture
def in_process(monkeypatch, forget):
    """Run a Python command, and those of its jobs, in this process."""

    def run(command):
        run_tool(*command[1:])
        forget()

    def run_jobs(todo, *_, finished=lambda *_: None, **__):
        for job in todo:
            print('$', shlex.join(job.command))
            start = time.monotonic()
            run(job.command)
            finished(job, time.monotonic() - start)

    monkeypatch.setattr(jobs, 'run_jobs', run_jobs)
    return run


@pytest.fixture
def study():
    return Study(
        (Arm('base', 'base', 'demo/base.py', data='drawn-{seed}'),
         Arm('random', 'random', None),
         Arm('whole', 'whole', None, start='base'),
         Arm('tuned', 'tuned', 'tuned.py', start='base',
             metrics={'top-1': 'accuracy/top1'}),
         Arm('hog', 'HOG', None, features='hog')),
        (Probe('lin', 'study/lin.py', {'top-1': 'accuracy/top1'}, ('a=1', )),
         Probe('classes', 'lin.py', {'top-1': 'top-1'}, data='real-{seed}',
               script=CLASSIFY)),
        (Question('first', 'First', ('top-1', ),
                  [Pair(('base', 'lin'), ('random', 'lin'))], range(2)),
         Question('second', 'Second', ('top-1', ), seeds=range(1),
                  table=('hog', 'base'), columns=[Column('classes', 'top-1')]),
         Question('third', 'Third', ('top-1', ), [
             Pair(('tuned', ENCODER), ('whole', 'lin'))], range(1))))
