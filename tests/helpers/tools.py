# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Run tools as their commands do."""
import importlib.util
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DRAWN_WORLD = ROOT / 'projects/drawn_world/configs'


def run_tool(name, *args):
    """Do what ``python tools/NAME ARGS`` does, in this process."""
    file = ROOT / 'tools' / name
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, 'argv', [str(file), *map(str, args)])
        patch.syspath_prepend(str(file.parent))
        runpy.run_path(str(file), run_name='__main__')


def import_tool(name):
    """Return a tool as a module, without running it."""
    file = ROOT / 'tools' / name
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(file.parent))
        spec.loader.exec_module(module)
    return module


def run(*command, cwd, ok=True, **env):
    """Run a command, which should succeed or not, and return its output."""
    done = subprocess.run([str(part) for part in command], cwd=cwd,
                          capture_output=True, text=True, timeout=900,
                          env=dict(os.environ, OMP_NUM_THREADS='1', **env))
    output = done.stdout + done.stderr
    assert (done.returncode == 0) == ok, output
    return output
