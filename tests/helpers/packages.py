# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Build wheels and source distributions."""
import os
import shutil
import subprocess
import sys

from .tools import ROOT

SOURCES = ('qbheat_mm', 'configs', 'tools', 'projects',
           'requirements', 'setup.py', 'pyproject.toml', 'MANIFEST.in',
           'model-index.yml', 'LICENSE')
BUILD = ('import sys, setuptools.build_meta as backend; '
         'print(getattr(backend, sys.argv[1])(sys.argv[2]))')


def python(*args, cwd, executable=sys.executable, **variables):
    """Run Python and return the last line that it prints."""
    result = subprocess.run(
        [executable, *map(str, args)], cwd=cwd, capture_output=True,
        text=True, env={**os.environ, **variables})
    assert result.returncode == 0, result.stdout + result.stderr
    return (result.stdout.strip().splitlines() or [''])[-1]


def copy_tree(folder):
    """Copy the project as a clone with leftovers of use; return its path."""
    root = folder / 'qbheat_mm'
    root.mkdir()
    ignore = shutil.ignore_patterns('.mim', '__pycache__')
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, root / name)
    for name in ('configs', 'tools'):
        cache = root / name / '__pycache__'
        cache.mkdir()
        (cache / 'litter.cpython-311.pyc').write_bytes(b'')
    return root


def build(kind, tree):
    out = tree.parent / kind
    out.mkdir(exist_ok=True)
    return out / python('-c', BUILD, f'build_{kind}', out, cwd=tree)
