# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What lets mmcv's setup.py read its version on Python 3.13 and above."""
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / 'tools/env'
#: As mmcv's setup.py has it.
SETUP = """
def version():
    exec(compile('__version__ = 7', 'version.py', 'exec'))
    return locals()['__version__']
print(version())
"""


@pytest.fixture
def exec_in_frame():
    spec = importlib.util.spec_from_file_location(
        'locals_of_exec', TOOLS / 'locals_of_exec.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module._exec_in_frame


def test_a_function_sees_what_it_has_executed(exec_in_frame):
    def version():
        exec_in_frame('__version__ = 7')
        return locals()['__version__']

    assert version() == 7


def test_namespaces_that_are_given_are_used(exec_in_frame):
    names, more = {}, {}
    exec_in_frame('x = 1', names)
    exec_in_frame('y = x', names, more)
    assert (names['x'], more) == (1, {'y': 1})
    assert 'y' not in names


def test_a_build_reads_its_version_on_any_python(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(TOOLS))
    from mmcv_wheel import keep_locals
    env = dict(os.environ)
    keep_locals(env, tmp_path)
    said = subprocess.check_output([sys.executable, '-c', SETUP], env=env,
                                   text=True)
    assert said == '7\n'
    found = subprocess.check_output(
        [sys.executable, '-c', 'import sitecustomize as s; print(s.__doc__)'],
        env=env, text=True)
    assert 'PEP 667' in found
