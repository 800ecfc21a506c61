# Copyright (c) QB-Heat MM authors. All rights reserved.
"""``python -m qbheat_mm.check_env``: does this environment work?

Prints each package with its version, and a command for the first problem; the
exit status is then 1. Standard library only, since this must run where
everything else is missing or broken.
"""
import contextlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

# Import name: distribution, oldest version, first version that is refused.
# torch 2.6 is the first that can be told which classes mmengine's checkpoints
# may contain. mmdet 3.3.0 asserts mmcv < 2.2.0.
COMMON = dict(
    numpy=('numpy', '1.26', ''),
    torch=('torch', '2.6', ''),
    torchvision=('torchvision', '0.21', ''))
FAMILIES = dict(
    upstream=dict(
        mmengine=('mmengine', '0.10.7', '1.0.0'),
        mmcv=('mmcv', '2.1.0', '2.2.0'),
        mmpretrain=('mmpretrain', '1.2.0', '2.0.0'),
        mmdet=('mmdet', '3.3.0', '4.0.0'),
        mim=('openmim', '0.3.9', '')),
    onedl=dict(
        mmengine=('onedl-mmengine', '0.10.12', '1.0.0'),
        mmcv=('onedl-mmcv', '2.3.6', '2.4.0'),
        mmpretrain=('onedl-mmpretrain', '1.3.6', '2.0.0'),
        mmdet=('onedl-mmdetection', '3.5.1', '4.0.0'),
        mim=('onedl-mim', '0.5.1', '')),
    # Without compiled operators: everything but detection.
    lite=dict(
        mmengine=('mmengine', '0.10.7', '1.0.0'),
        mmcv=('mmcv-lite', '2.1.0', '2.2.0'),
        mmpretrain=('mmpretrain', '1.2.0', '2.0.0')))
PROJECT = 'qbheat_mm'
IMPORTS = ('numpy', 'torch', 'torchvision', 'mmengine', 'mmcv', 'mmcv.ops',
           'mmpretrain', 'mmdet', 'mim', PROJECT)

# Runs in a process of its own, since a broken binary can end its importer.
PROBE = """
import importlib, json, sys, warnings
warnings.simplefilter('ignore')
for name in sys.argv[1:]:
    found = dict(error='')
    try:
        module = importlib.import_module(name)
        found['file'] = getattr(module, '__file__', None) or ''
        if name == 'torch':
            found['cuda'] = module.version.cuda or ''
            found['gpu'] = (module.cuda.get_device_name()
                            if module.cuda.is_available() else '')
        if name == 'mmcv.ops':
            found['cuda'] = module.get_compiling_cuda_version()
    except BaseException as error:
        text = ' '.join(str(error).split())
        found['error'] = f'{type(error).__name__}: {text}'
    print('probe ' + json.dumps([name, found]), flush=True)
"""


class Row(NamedTuple):
    """One line of the report; ``fix`` is a command."""
    part: str
    version: str
    problem: str = ''
    fix: str = ''
    note: str = ''


def pip(command: str, *requirements: str) -> str:
    """A command of pip, or of uv in an environment without pip."""
    python = shlex.quote(sys.executable)
    tool = (f'{python} -m pip {command}'
            if importlib.util.find_spec('pip') else
            f'uv pip {command.replace(" -y", "")} --python {python}')
    return ' '.join([tool, *map(shlex.quote, requirements)])


def build_mmcv(family: str) -> str:
    """The command that installs a family's mmcv."""
    if family == 'lite':  # its setup.py imports pkg_resources
        return pip('install', 'setuptools<81', 'wheel') + ' && ' + pip(
            'install', '--no-build-isolation', requirement('mmcv', 'lite'))
    option = ' --family onedl' if family == 'onedl' else ''
    return f'{shlex.quote(sys.executable)} -m qbheat_mm.build_mmcv{option}'


def fits(version: str, low: str, high: str = '') -> bool:
    """Whether low <= version < high ('' for no upper bound)."""
    first, lowest, refused = (
        tuple(map(int, re.findall(r'\d+', re.match(r'[\d.]*', text).group())))
        for text in (version, low, high))
    return first >= lowest and (not high or first < refused)


def requirement(name: str, family: str) -> str:
    """The pip requirement of an import name."""
    dist, low, high = COMMON.get(name) or FAMILIES[family][name]
    return f'{dist}>={low}' + (f',<{high}' if high else '')


def find_families(dists: Mapping) -> list:
    """The families that have packages, 'lite' for mmcv-lite alone."""
    found = {name for name, bounds in FAMILIES.items()
             if any(d in dists for d, _, _ in bounds.values())}
    if 'onedl' in found and len(found) > 1:
        return ['upstream', 'onedl']
    if 'mmcv-lite' in dists and not {'mmcv', 'mmdet'} & {*dists}:
        return ['lite']
    return ['onedl'] if 'onedl' in found else ['upstream']


def judge(dists: Mapping, imports: Mapping) -> list:
    """Judge every part, in the order in which problems are to be fixed.

    Args:
        dists (Mapping): Versions of the installed distributions.
        imports (Mapping): For each of :data:`IMPORTS` the ``error`` of
            importing it, '' for none, and its ``file``; ``cuda`` (a version
            or '') for torch and mmcv.ops, ``gpu`` for torch.
    """
    families = find_families(dists)
    family, torch = families[0], imports['torch']
    rows = [Row('python', platform.python_version())]
    if len(families) > 1:
        present = sorted({dist for family in FAMILIES.values()
                          for dist, _, _ in family.values()} & {*dists})
        rows.append(Row(
            'families', 'both', "upstream and onedl overwrite each other's "
            'files: remove both, then install one',
            pip('uninstall -y', *present)))
    for name in (*COMMON, *FAMILIES[family]):
        rows.append(judge_part(name, family, dists, imports[name]['error']))
        if name == 'mmcv' and family != 'lite':
            rows.append(judge_ops(family, imports['mmcv.ops'], torch))
    if family == 'lite':
        rows.append(Row('detection', '-', note='needs mmdet and '
                        f'{build_mmcv("upstream")}'))
    rows.append(judge_project(dists, imports[PROJECT]))
    cuda = f'CUDA {torch["cuda"]}' if torch.get('cuda') else 'no CUDA'
    return [*rows, Row('GPU', torch.get('gpu') or 'none',
                       note=f'torch: {cuda}')]


def judge_part(name: str, family: str, dists: Mapping, error: str) -> Row:
    """Judge a package by its version, then by importing it."""
    dist, low, high = COMMON.get(name) or FAMILIES[family][name]
    version = dists.get(dist, '')
    fix = build_mmcv(family) if name == 'mmcv' else pip(
        'install', requirement(name, family))
    if name in ('torch', 'torchvision'):
        # uv takes both from one source; pip may mix builds.
        pins = ([f'torch=={dists["torch"].split("+")[0]}', 'torchvision']
                if fits(dists.get('torch', '0'), COMMON['torch'][1]) else
                [requirement('torch', ''), requirement('torchvision', '')])
        fix = (f'{pip("install", "uv")} && {shlex.quote(sys.executable)} -m '
               f'uv pip install --python {shlex.quote(sys.executable)} '
               '--reinstall-package torch --reinstall-package torchvision '
               + ' '.join(map(shlex.quote, pins)))
    if dist == 'mmcv' and 'mmcv-lite' in dists:
        return Row(dist, version or '-', 'mmcv-lite is in its place, without '
                   'the operators that detection needs', fix)
    if not version:
        return Row(dist, '-', 'missing', fix)
    if not fits(version, low, high):
        wanted = f'>={low}' + (f', <{high}' if high else '')
        return Row(dist, version, f'needs {wanted}', fix)
    if 'libGL' in error:  # of opencv-python, on a machine without a screen
        fix = (pip('uninstall -y', 'opencv-python') + ' && ' + pip(
            'install', '--force-reinstall', '--no-deps',
            'opencv-python-headless'))
    elif "No module named 'pkg_resources'" in error:
        fix = pip('install', 'setuptools<81')
    elif error and name not in ('mmcv', 'torch', 'torchvision'):
        fix = pip('install', '--force-reinstall', f'{dist}=={version}')
    return Row(dist, version, error, fix if error else '')


def judge_ops(family: str, ops: Mapping, torch: Mapping) -> Row:
    """Judge mmcv's compiled operators, which mmdet imports."""
    part, fix, cuda = 'mmcv.ops', build_mmcv(family), ops.get('cuda', '')
    if ops['error']:
        return Row(part, '-', ops['error'], fix)
    if re.match(r'\d', cuda):
        return Row(part, f'CUDA {cuda}')
    if torch.get('gpu'):
        return Row(part, 'CPU', 'built for the CPU only: detection fails on '
                   f'the {torch["gpu"]}; put nvcc on the PATH',
                   f'FORCE_CUDA=1 {fix}')
    return Row(part, 'CPU')


def judge_project(dists: Mapping, found: Mapping) -> Row:
    """Judge the installation of this package, and what an import finds."""
    version = dists.get(PROJECT, '-')
    here = Path(__file__).resolve().parents[1]
    source = str(here) if (here / 'setup.py').exists() else '.'
    fix = pip('install', '--no-deps', '--no-build-isolation', '-e', source)
    if version == '-':
        return Row(PROJECT, '-', 'is not installed', fix)
    if found['error']:
        return Row(PROJECT, version, found['error'])
    if not found.get('file'):
        return Row(PROJECT, version, f'in {os.getcwd()}, `import {PROJECT}` '
                   'finds a folder of that name instead', fix)
    return Row(PROJECT, version, note=f'in {os.path.dirname(found["file"])}')


def probe(names: Sequence) -> dict:
    """Import each name in a child process; a crash counts as its error."""
    found = {}
    while len(found) < len(names):
        left = [name for name in names if name not in found]
        child = subprocess.run([sys.executable, '-c', PROBE, *left],
                               capture_output=True, text=True)
        found.update(json.loads(line[len('probe '):])
                     for line in child.stdout.splitlines()
                     if line.startswith('probe '))
        crashed = next((name for name in left if name not in found), None)
        if crashed:
            found[crashed] = dict(error='importing it ended Python with '
                                  f'status {child.returncode}')
    return found


def installed() -> dict:
    """Versions of the distributions that matter here."""
    dists = {}
    for bounds in (COMMON, *FAMILIES.values(), {'': (PROJECT, '', '')}):
        for dist, _, _ in bounds.values():
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                dists[dist] = importlib.metadata.version(dist)
    return dists


def report(rows: Sequence) -> str:
    """A table, and below it the command for the first problem."""
    lines = []
    for row in rows:
        verdict = f'NO  {row.problem}' if row.problem else row.note or 'ok'
        lines.append(f'{row.part:22}{row.version:24}{verdict}')
    first = next((row for row in rows if row.problem), None)
    if sum(row.problem == 'missing' for row in rows) > 2:
        lines.append('\nMost packages are missing: run `make env` in the '
                     'clone or install them, see docs/installation.md')
    elif first:
        lines.append(f'\nTo fix {first.part}, then check again:\n{first.fix}')
    return '\n'.join(lines)


def main() -> int:
    """Print the report; the exit status says whether all is well."""
    rows = judge(installed(), probe(IMPORTS))
    print(report(rows))
    return int(any(row.problem for row in rows))


if __name__ == '__main__':
    sys.exit(main())
