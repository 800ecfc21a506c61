# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Run the commands of demo and study in one process, which imports once."""
import runpy
import shlex
import sys
import time
from pathlib import Path

import pytest

from projects.drawn_world import jobs


@pytest.fixture
def in_process(monkeypatch, forget):
    """Run a Python command, and those of its jobs, in this process."""

    def run(command):
        file, *arguments = map(str, command[1:])
        with monkeypatch.context() as patch:
            patch.setattr(sys, 'argv', [file, *arguments])
            patch.syspath_prepend(Path(file).parent)
            runpy.run_path(file, run_name='__main__')
        forget()

    def run_jobs(todo, *_, finished=lambda *_: None, **__):
        for job in todo:
            print('$', shlex.join(job.command))
            start = time.monotonic()
            run(job.command)
            finished(job, time.monotonic() - start)

    monkeypatch.setattr(jobs, 'run_jobs', run_jobs)
    return run
