# Copyright (c) QB-Heat MM authors. All rights reserved.
"""``python -m qbheat_mm.check_env``: does this environment work?

Prints each package with its version, and a command for each problem; the
exit status is then 1. Standard library only, since this must run where
everything else is missing or broken.
"""
import contextlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple

MIN_PYTHON = '3.10'

# Import name: distribution, oldest version, first version that is refused.
# torch 2.6 is the first that can be told which classes mmengine's checkpoints
# may contain. mmdet 3.3.0 asserts mmcv < 2.2.0.
Bounds = Dict[str, Tuple[str, str, str]]
COMMON: Bounds = dict(
    numpy=('numpy', '1.26', ''),
    torch=('torch', '2.6', ''),
    torchvision=('torchvision', '0.21', ''))
FAMILIES: Dict[str, Bounds] = dict(
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


class Facts(NamedTuple):
    """What an environment contains.

    Args:
        python (str): Python's version.
        dists (dict[str, str]): Versions of the installed distributions.
        imports (dict[str, dict]): For each of :data:`IMPORTS` the ``error``
            of importing it ('' for none) and its ``file``; ``cuda`` (a
            version or '') for torch and mmcv.ops, ``gpu`` for torch.
        torchvision_torch (str): The torch version that torchvision requires.
        folder (str): Where the installed qbheat_mm is, '' if unknown.
    """
    python: str
    dists: Dict[str, str]
    imports: Dict[str, dict]
    torchvision_torch: str = ''
    folder: str = ''


class Row(NamedTuple):
    """One line of the report; ``fix`` is a command."""
    part: str
    version: str
    problem: str = ''
    fix: str = ''
    note: str = ''


class Commands:
    """Commands that fix a problem, for one interpreter.

    Args:
        python (str): Path of the interpreter.
        has_pip (bool): Whether it has pip; otherwise uv is used.
    """

    def __init__(self, python: str, has_pip: bool) -> None:
        self.python = shlex.quote(python)
        self.has_pip = has_pip

    def install(self, *requirements: str) -> str:
        """Install requirements (or options)."""
        tool = (f'{self.python} -m pip install' if self.has_pip else
                f'uv pip install --python {self.python}')
        return f'{tool} {" ".join(map(shlex.quote, requirements))}'

    def uninstall(self, *names: str) -> str:
        """Uninstall distributions."""
        tool = (f'{self.python} -m pip uninstall -y' if self.has_pip else
                f'uv pip uninstall --python {self.python}')
        return f'{tool} {" ".join(names)}'

    def mmcv(self, family: str) -> str:
        """Replace any mmcv by the family's."""
        if family == 'lite':  # its setup.py imports pkg_resources
            tools = self.install('setuptools<81', 'wheel')
            lite = self.install('--no-build-isolation',
                                requirement('mmcv', 'lite'))
            return f'{tools} && {lite}'
        option = ' --family onedl' if family == 'onedl' else ''
        return f'{self.python} -m qbheat_mm.build_mmcv{option}'

    def pair_torch(self, torch: str, torchvision: str = '') -> str:
        """Reinstall both from one source, by uv, which does not mix them."""
        pins = f'torch=={torch} torchvision' + (
            f'=={torchvision}' if torchvision else '')
        uv = (f'{self.install("uv")} && {self.python} -m uv'
              if self.has_pip else 'uv')
        return (f'{uv} pip install --python {self.python} --reinstall-package '
                f'torch --reinstall-package torchvision {pins}')


def release(version: str) -> Tuple[int, ...]:
    """Read ``2.1.0rc1+cu130`` as (2, 1, 0)."""
    digits = re.match(r'[\d.]*', version).group()
    return tuple(map(int, re.findall(r'\d+', digits)))


def fits(version: str, low: str, high: str) -> bool:
    """Whether low <= version < high ('' for no upper bound)."""
    return release(version) >= release(low) and (
        not high or release(version) < release(high))


def requirement(name: str, family: str) -> str:
    """Return the pip requirement of an import name."""
    dist, low, high = COMMON.get(name) or FAMILIES[family][name]
    return f'{dist}>={low}' + (f',<{high}' if high else '')


def find_families(dists: Dict[str, str]) -> List[str]:
    """Return the families that have packages, 'lite' for mmcv-lite alone."""
    found = [name for name in ('upstream', 'onedl')
             if any(d in dists for d, _, _ in FAMILIES[name].values())]
    if 'mmcv-lite' in dists:
        found = [name for name in found if name != 'upstream']
        lite = not found and 'mmcv' not in dists and 'mmdet' not in dists
        found.insert(0, 'lite' if lite else 'upstream')
    return found


def judge(facts: Facts, commands: Commands) -> List[Row]:
    """Judge every part, in an order in which problems can be fixed."""
    families = find_families(facts.dists)
    family = families[0] if families else 'upstream'
    rows = [Row('python', facts.python)]
    if not fits(facts.python, MIN_PYTHON, ''):
        rows = [Row('python', facts.python, f'needs {MIN_PYTHON} or newer',
                    'make env PYTHON=python3.11')]
    if len(families) > 1:
        rows.append(judge_both(facts, commands))
    for name in (*COMMON, *FAMILIES[family]):
        row = judge_part(name, family, facts, commands)
        rows.append(without_fix_if_consequence(row, rows, facts))
        if name == 'mmcv' and family != 'lite':
            row = judge_ops(family, facts, commands)
            rows.append(without_fix_if_consequence(row, rows, facts))
    if family == 'lite':
        rows.append(describe_lite(commands))
    rows.append(judge_project(facts, commands))
    torch = facts.imports['torch']
    cuda = f'CUDA {torch["cuda"]}' if torch.get('cuda') else 'no CUDA'
    rows.append(Row('GPU', torch.get('gpu') or 'none', note=f'torch: {cuda}'))
    return rows


def without_fix_if_consequence(row: Row, before: List[Row],
                               facts: Facts) -> Row:
    """Drop the fix of a failing import while an earlier part is broken."""
    errors = [found['error'] for found in facts.imports.values()]
    broken = any(other.problem for other in before)
    if broken and row.problem and row.problem in errors:
        return row._replace(fix='')
    return row


def judge_both(facts: Facts, commands: Commands) -> Row:
    """Both families, whose files overwrite each other."""
    dists = (d for bounds in FAMILIES.values() for d, _, _ in bounds.values())
    present = [d for d in dict.fromkeys(dists) if d in facts.dists]
    wanted = [requirement(name, 'upstream') for name in FAMILIES['upstream']
              if name != 'mmcv']
    return Row(
        'families', 'both', 'upstream and onedl packages overwrite each '
        f"other's files: keep one (found {', '.join(present)})",
        f'{commands.uninstall(*present)} && {commands.install(*wanted)} && '
        f'{commands.mmcv("upstream")}')


def judge_part(name: str, family: str, facts: Facts,
               commands: Commands) -> Row:
    """Judge a package by its version, then by importing it."""
    dist, low, high = COMMON.get(name) or FAMILIES[family][name]
    version = facts.dists.get(dist, '')
    torch = facts.dists.get('torch', '').split('+')[0]
    if name == 'mmcv':
        install = commands.mmcv(family)
    elif name == 'torchvision' and torch:
        install = commands.install('torchvision', f'torch=={torch}')
    elif name in ('torch', 'torchvision'):  # together, so that they match
        install = commands.install(requirement('torch', ''),
                                   requirement('torchvision', ''))
    else:
        install = commands.install(requirement(name, family))
    if dist == 'mmcv' and 'mmcv-lite' in facts.dists:
        return Row(dist, version or '-', 'mmcv-lite is in its place, without '
                   'the compiled operators that detection needs', install)
    if not version:
        return Row(dist, '-', 'missing', install)
    if not fits(version, low, high):
        wanted = f'>={low}' + (f', <{high}' if high else '')
        return Row(dist, version, f'needs {wanted}', install)
    error = facts.imports[name]['error']
    if name == 'torchvision':
        demanded = facts.torchvision_torch
        if torch and demanded and torch != demanded:
            return Row(dist, version, f'is for torch {demanded}, not {torch}',
                       commands.pair_torch(torch))
        if 'torchvision::' in error:
            return Row(dist, version, f'is another build than torch ({error})',
                       commands.pair_torch(torch, version.split('+')[0]))
    if error:
        fix = fix_import(dist, version, error, install, commands)
        return Row(dist, version, error, fix)
    return Row(dist, version)


def fix_import(dist: str, version: str, error: str, install: str,
               commands: Commands) -> str:
    """Return a command for a package that is there but fails to import."""
    again = '--force-reinstall' if commands.has_pip else '--reinstall'
    if 'libGL' in error:  # of opencv-python, on a machine without a screen
        headless = commands.install(again, '--no-deps',
                                    'opencv-python-headless')
        return f'{commands.uninstall("opencv-python")} && {headless}'
    if "No module named 'pkg_resources'" in error:
        return commands.install('setuptools<81')
    if dist in ('mmcv', 'mmcv-lite', 'onedl-mmcv'):
        return install
    pinned = f'{dist}=={version.split("+")[0]}'
    if 'No module named' in error:  # a dependency is missing
        return commands.install(pinned)
    return commands.install(again, pinned)


def judge_ops(family: str, facts: Facts, commands: Commands) -> Row:
    """Judge mmcv's compiled operators, which mmdet imports."""
    part = 'mmcv.ops (compiled)'
    found, gpu = facts.imports['mmcv.ops'], facts.imports['torch'].get('gpu')
    fix = commands.mmcv(family)
    if found['error']:
        return Row(part, '-', found['error'], fix)
    cuda = found.get('cuda', '')
    if re.match(r'\d', cuda):
        return Row(part, f'CUDA {cuda}')
    if gpu:
        return Row(part, 'CPU', f'built for the CPU only, and {gpu} is here: '
                   'detection fails on the GPU; build again with nvcc on the '
                   'PATH', f'FORCE_CUDA=1 sh -c {shlex.quote(fix)}')
    return Row(part, 'CPU')


def judge_project(facts: Facts, commands: Commands) -> Row:
    """Judge the installation of this package, and what an import finds."""
    version = facts.dists.get(PROJECT, '-')
    here = Path(__file__).resolve().parents[1]
    source = str(here) if (here / 'setup.py').exists() else '.'
    again = commands.install('--no-deps', '--no-build-isolation', '-e', source)
    found = facts.imports[PROJECT]
    if version == '-':
        return Row(PROJECT, '-', 'is not installed: `mim train` finds it only '
                   'in its own folder', again)
    if found['error']:
        return Row(PROJECT, version, found['error'])
    if not found.get('file'):
        return Row(PROJECT, version, f'in {os.getcwd()}, `import {PROJECT}` '
                   'finds a folder of that name instead of the package', again)
    folder = os.path.dirname(os.path.realpath(found['file']))
    if facts.folder and folder != facts.folder:
        return Row(PROJECT, version, note=f'{facts.folder} is installed, but '
                   f'imports find {folder} (PYTHONPATH or this folder)')
    return Row(PROJECT, version)


def describe_lite(commands: Commands) -> Row:
    """Say what an environment with mmcv-lite is for."""
    more = commands.install(requirement('mmdet', 'upstream'),
                            requirement('mim', 'upstream'), 'setuptools<81')
    return Row('detection', '-', note='not here: this environment is for '
               'pre-training, probing, embedding and analysis. Detection '
               'needs mmdet and compiled operators:\n'
               f'  {commands.mmcv("upstream")} && {more}')


def probe(names: Tuple[str, ...]) -> Dict[str, dict]:
    """Import each name in a child process; a crash counts as its error."""
    found: Dict[str, dict] = {}
    while len(found) < len(names):
        left = [name for name in names if name not in found]
        child = subprocess.run([sys.executable, '-c', PROBE, *left],
                               capture_output=True, text=True)
        for line in child.stdout.splitlines():
            if line.startswith('probe '):
                name, result = json.loads(line[len('probe '):])
                found[name] = result
        left = [name for name in left if name not in found]
        if left:
            found[left[0]] = dict(error='importing it ended Python with '
                                  f'status {child.returncode}')
    return found


def installed_folder() -> str:
    """Return the folder of the installed qbheat_mm, '' if unknown."""
    try:
        dist = importlib.metadata.distribution(PROJECT)
    except importlib.metadata.PackageNotFoundError:
        return ''
    source = json.loads(dist.read_text('direct_url.json') or '{}')
    editable = source.get('dir_info', {}).get('editable')
    root = (source['url'][len('file://'):] if editable
            else dist.locate_file(''))
    return os.path.realpath(os.path.join(root, PROJECT))


def gather() -> Facts:
    """Look at the environment of the running interpreter."""
    names = {d for bounds in (COMMON, *FAMILIES.values())
             for d, _, _ in bounds.values()} | {PROJECT}
    dists = {}
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            dists[name] = importlib.metadata.version(name)
    demanded = None
    if 'torchvision' in dists:
        needs = ' '.join(importlib.metadata.requires('torchvision') or ())
        demanded = re.search(r'\btorch ?\(?==([\d.]+)', needs)
    return Facts(
        '.'.join(map(str, sys.version_info[:3])), dists, probe(IMPORTS),
        demanded.group(1) if demanded else '', installed_folder())


def report(rows: List[Row]) -> str:
    """Format the rows as a table, with the commands below it."""
    lines, fixes = [], {}
    for row in rows:
        verdict = f'NO  {row.problem}' if row.problem else row.note or 'ok'
        lines.append(f'{row.part:22}{row.version:24}{verdict}')
        if row.fix:
            fixes.setdefault(row.fix, []).append(row.part)
    if fixes:
        lines.append('\nTo fix this, run in this order:')
        lines += [f'# {", ".join(parts)}\n{fix}'
                  for fix, parts in fixes.items()]
    return '\n'.join(lines)


def main() -> int:
    """Print the report; the exit status says whether all is well."""
    has_pip = importlib.util.find_spec('pip') is not None
    rows = judge(gather(), Commands(sys.executable, has_pip))
    print(report(rows))
    return int(any(row.problem for row in rows))


if __name__ == '__main__':
    sys.exit(main())
