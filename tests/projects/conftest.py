# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Run the commands of demo and study in one process, which imports once."""
import shlex
import time

import pytest

from projects.study import jobs

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
