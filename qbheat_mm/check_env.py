# Copyright (c) QB-Heat MM authors. All rights reserved.
"""``python -m qbheat_mm.check_env``: does this environment fit?

Prints each part, its version and whether it fits, and for what does not the
command that mends it; the exit status is then 1. Written on the standard
library alone, for it must run where everything else is missing.
"""
import importlib.metadata
import importlib.util
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

MIN_PYTHON = '3.10'

# Import name: distribution, lowest version that was tried, first version
# that is refused. torch 2.6 is the first whose safe unpickler can be told the
# names in mmengine's checkpoints. mmdet 3.3.0 asserts mmcv < 2.2.0.
Bounds = Dict[str, Tuple[str, str, str]]
COMMON: Bounds = dict(
    numpy=('numpy', '1.26', ''),
    torch=('torch', '2.6', ''),
    torchvision=('torchvision', '0.21', ''))
FAMILIES: Dict[str, Bounds] = dict(
    upstream=dict(
        mmengine=('mmengine', '0.10.7', '1.0.0'),
        mmcv=('mmcv', '2.1.0', '2.2.0'),
        mmdet=('mmdet', '3.3.0', '4.0.0'),
        mmpretrain=('mmpretrain', '1.2.0', '2.0.0'),
        mim=('openmim', '0.3.9', '')),
    onedl=dict(
        mmengine=('onedl-mmengine', '0.10.12', '1.0.0'),
        mmcv=('onedl-mmcv', '2.3.6', '2.4.0'),
        mmdet=('onedl-mmdetection', '3.5.1', '4.0.0'),
        mmpretrain=('onedl-mmpretrain', '1.3.6', '2.0.0'),
        mim=('onedl-mim', '0.5.1', '')),
    # Without compiled operators: all but detection.
    lite=dict(
        mmengine=('mmengine', '0.10.7', '1.0.0'),
        mmcv=('mmcv-lite', '2.1.0', '2.2.0'),
        mmpretrain=('mmpretrain', '1.2.0', '2.0.0')))

# What is imported to see that it works, each after what it needs.
IMPORTS = ('numpy', 'torch', 'torchvision', 'mmengine', 'mmcv', 'mmcv.ops',
           'mmpretrain', 'mmdet', 'mim', 'qbheat_mm')

# What a part's import needs: where that is at fault, mending it is enough.
NEEDS = dict(
    numpy=(),
    torch=('numpy', ),
    torchvision=('torch', ),
    mmengine=('torch', ),
    mmcv=('torch', 'mmengine'),
    mmdet=('torch', 'torchvision', 'mmengine', 'mmcv', 'mmcv.ops'),
    mmpretrain=('torch', 'torchvision', 'mmengine', 'mmcv'),
    mim=())

# Runs in a process of its own, for a broken binary can end its importer.
PROBE = """
import importlib, json, sys, warnings
warnings.simplefilter('ignore')
for name in sys.argv[1:]:
    found = dict(error='')
    try:
        module = importlib.import_module(name)
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
    """What an environment holds.

    Args:
        python (str): Python's version.
        dists (dict[str, str]): Versions of the installed distributions.
        imports (dict[str, dict]): For each of :data:`IMPORTS` the ``error``
            of its import, '' when it works; for torch also ``cuda`` (its
            CUDA version) and ``gpu`` (a name), for mmcv.ops ``cuda`` (the
            CUDA version of its operators), each '' for none.
        torchvision_torch (str): The torch version that torchvision demands.
        source (str): The project's folder if it runs from there, not
            from an installed package.
    """
    python: str
    dists: Dict[str, str]
    imports: Dict[str, dict]
    torchvision_torch: str = ''
    source: str = ''


class Row(NamedTuple):
    """One line of the table; ``fix`` is a command, '' where all is well."""
    part: str
    version: str
    family: str = ''
    problem: str = ''
    fix: str = ''
    note: str = ''


class Commands:
    """The commands that mend, spelt for one interpreter and its installer."""

    def __init__(self, python: str, has_pip: bool) -> None:
        self.python = shlex.quote(python)
        self.has_pip = has_pip

    def install(self, *requirements: str, options: str = '') -> str:
        quoted = ' '.join(shlex.quote(r) for r in requirements)
        tool = (f'{self.python} -m pip install' if self.has_pip else
                f'uv pip install --python {self.python}')
        return ' '.join(filter(None, (tool, options, quoted)))

    def uninstall(self, *names: str) -> str:
        tool = (f'{self.python} -m pip uninstall -y' if self.has_pip else
                f'uv pip uninstall --python {self.python}')
        return f'{tool} {" ".join(names)}'

    def build_mmcv(self, family: str) -> str:
        """Build for the torch that is there, in place of any other mmcv."""
        option = ' --family onedl' if family == 'onedl' else ''
        return f'{self.python} -m qbheat_mm.build_mmcv{option}'

    def mmcv(self, family: str) -> str:
        if family != 'lite':
            return self.build_mmcv(family)
        # Its setup.py imports pkg_resources, gone from setuptools 81.
        tools = self.install('setuptools<81', 'wheel')
        lite = self.install(requirement('mmcv', 'lite'),
                            options='--no-build-isolation')
        return f'{tools} && {lite}'

    def pair_torch(self, torch: str, torchvision: str) -> str:
        """Take torch and torchvision from one source, by one resolver."""
        pins = [f'torch=={torch}']
        pins.append(f'torchvision=={torchvision}' if torchvision else
                    'torchvision')
        return (f'{self.install("uv")} && ' if self.has_pip else '') + (
            f'{self.python + " -m " if self.has_pip else ""}uv pip install '
            f'--python {self.python} --reinstall-package torch '
            f'--reinstall-package torchvision {" ".join(pins)}')


def release(version: str) -> Tuple[int, ...]:
    """Read ``2.1.0rc1+cu130`` as (2, 1, 0)."""
    return tuple(map(int, re.findall(r'\d+',
                                     re.match(r'[\d.]*', version).group())))


def fits(version: str, low: str, high: str) -> bool:
    return release(version) >= release(low) and (
        not high or release(version) < release(high))


def requirement(name: str, family: str) -> str:
    """Spell an import name as what pip is to install."""
    dist, low, high = (COMMON.get(name) or FAMILIES[family][name])
    return f'{dist}>={low}' + (f',<{high}' if high else '')


def families_in(dists: Dict[str, str]) -> List[str]:
    """The families of which packages are installed.

    Upstream without operators is a family of its own, unless something is
    there that needs them.
    """
    found = [
        family for family in ('upstream', 'onedl')
        if any(dist in dists for dist, _, _ in FAMILIES[family].values())
    ]
    if 'mmcv-lite' in dists:
        found = [f for f in found if f != 'upstream']
        lite = not found and not {'mmcv', 'mmdet'} & set(dists)
        found.insert(0, 'lite' if lite else 'upstream')
    return found


def judge(facts: Facts, commands: Commands) -> List[Row]:
    """Tell for every part whether it fits, and what mends it if not."""
    families = families_in(facts.dists)
    family = families[0] if families else 'upstream'
    rows = {'python': judge_python(facts)}
    if len(families) > 1:
        rows['families'] = judge_both(facts, commands)
    for name in (*COMMON, *FAMILIES[family]):
        row = judge_part(name, '' if name in COMMON else family, facts,
                         commands)
        at_fault = [n for n in ('families', *NEEDS[name])
                    if n in rows and rows[n].problem]
        if row.fix and at_fault and row.version != '-':
            row = row._replace(fix='')
        rows[name] = row
        if name == 'mmcv' and family != 'lite':
            rows['mmcv.ops'] = judge_ops(family, facts, commands)
    if family == 'lite':
        rows['detection'] = describe_lite(commands)
    rows['qbheat_mm'] = judge_project(facts, commands)
    return [*rows.values(), describe_gpu(facts)]


def judge_python(facts: Facts) -> Row:
    if fits(facts.python, MIN_PYTHON, ''):
        return Row('python', facts.python)
    return Row('python', facts.python, '', f'needs {MIN_PYTHON} or newer',
               'make env PYTHON=python3.11')


def judge_both(facts: Facts, commands: Commands) -> Row:
    """Both families under one import name: whose files are there is luck."""
    present = [
        dist for dist in dict.fromkeys(
            d for bounds in FAMILIES.values() for d, _, _ in bounds.values())
        if dist in facts.dists
    ]
    wanted = [requirement(n, 'upstream') for n in FAMILIES['upstream']
              if n != 'mmcv']
    return Row(
        'families', 'both', 'both',
        'upstream and onedl packages overwrite each other\'s files: keep one '
        f'(found {", ".join(present)})',
        f'{commands.uninstall(*present)} && {commands.install(*wanted)} && '
        f'{commands.build_mmcv("upstream")}')


def judge_part(name: str, family: str, facts: Facts,
               commands: Commands) -> Row:
    """Judge a package by its version, then by its import."""
    dist, low, high = COMMON.get(name) or FAMILIES[family][name]
    install = commands.install(requirement(name, family))
    if name == 'mmcv':
        install = commands.mmcv(family)
    elif name == 'torchvision' and 'torch' in facts.dists:
        torch = facts.dists['torch'].split('+')[0]
        install = commands.install('torchvision', f'torch=={torch}')
    elif name in ('torch', 'torchvision'):  # from one source, they must fit
        install = commands.install(*(requirement(n, '')
                                     for n in ('torch', 'torchvision')))
    version = facts.dists.get(dist, '')
    if dist == 'mmcv' and 'mmcv-lite' in facts.dists:
        return Row(dist, version or '-', family,
                   'mmcv-lite is in its place, without the compiled '
                   'operators that detection needs', install)
    if not version:
        return Row(dist, '-', family, 'missing', install)
    if not fits(version, low, high):
        wanted = f'>={low}' + (f', <{high}' if high else '')
        return Row(dist, version, family, f'does not fit: needs {wanted}',
                   install)
    if name == 'torchvision':
        problem = torchvision_problem(facts)
        if problem:
            same = facts.torchvision_torch in ('', torch)
            return Row(dist, version, '', problem, commands.pair_torch(
                torch, version.split('+')[0] if same else ''))
    error = facts.imports[name]['error']
    if error:
        return Row(dist, version, family, error,
                   mend_import(dist, version, error, install, commands))
    return Row(dist, version, family)


def torchvision_problem(facts: Facts) -> str:
    """Why torchvision does not go with torch: a version or a build."""
    torch = facts.dists.get('torch', '').split('+')[0]
    demanded = facts.torchvision_torch
    if torch and demanded and torch != demanded:
        return f'is made for torch {demanded}, not {torch}'
    error = facts.imports['torchvision']['error']
    if 'torchvision::' in error:
        return f'is another build than torch ({error})'
    return ''


def mend_import(dist: str, version: str, error: str, install: str,
                commands: Commands) -> str:
    """The command for a package that is there and cannot be imported."""
    again = '--force-reinstall' if commands.has_pip else '--reinstall'
    if 'libGL' in error:  # of opencv-python, on a machine without a screen
        headless = commands.install('opencv-python-headless',
                                    options=f'{again} --no-deps')
        return f'{commands.uninstall("opencv-python")} && {headless}'
    if "No module named 'pkg_resources'" in error:
        return commands.install('setuptools<81')
    pinned = f'{dist}=={version.split("+")[0]}'
    missing = re.search(r"No module named '(\w+)'", error)
    if missing and missing.group(1) not in NEEDS:
        return commands.install(pinned)  # brings what it depends on
    if dist in ('mmcv', 'mmcv-lite', 'onedl-mmcv'):
        return install
    return commands.install(pinned, options=again)


def judge_ops(family: str, facts: Facts, commands: Commands) -> Row:
    """Judge mmcv's compiled operators, which mmdet cannot do without."""
    part = 'mmcv.ops (compiled)'
    found, gpu = facts.imports['mmcv.ops'], facts.imports['torch'].get('gpu')
    fix = commands.build_mmcv(family)
    if found['error']:
        return Row(part, '-', family, found['error'], fix)
    cuda = found.get('cuda', '')
    with_cuda = bool(re.match(r'\d', cuda))
    if gpu and not with_cuda:
        return Row(part, 'CPU', family,
                   f'built for the CPU only, and {gpu} is here: detection '
                   'fails on the GPU; build again with nvcc on the PATH',
                   f'FORCE_CUDA=1 sh -c {shlex.quote(fix)}')
    return Row(part, f'CUDA {cuda}' if with_cuda else 'CPU', family)


def judge_project(facts: Facts, commands: Commands) -> Row:
    version = facts.dists.get('qbheat_mm', '')
    if not version:
        folder = facts.source or '.'
        return Row('qbheat_mm', '-', '', 'is not installed: `mim train` from '
                   'another folder will not find it',
                   commands.install('-e', folder, options='--no-deps'))
    return Row('qbheat_mm', version, '', facts.imports['qbheat_mm']['error'])


def describe_lite(commands: Commands) -> Row:
    """What an environment on mmcv-lite is for, and what would be more."""
    more = commands.install(*(requirement(n, 'upstream')
                              for n in ('mmdet', 'mim')), 'setuptools<81')
    return Row('detection', '-', 'lite',
               note='not here: this environment is for pre-training, probing,'
               ' embedding and analysis. Detection needs operators and mmdet:'
               f'\n  {commands.build_mmcv("upstream")} && {more}')


def describe_gpu(facts: Facts) -> Row:
    torch = facts.imports['torch']
    cuda = f'CUDA {torch["cuda"]}' if torch.get('cuda') else 'no CUDA'
    return Row('GPU', torch.get('gpu') or 'none seen, CPU is used',
               f'({cuda})')


def probe(names: Tuple[str, ...]) -> Dict[str, dict]:
    """Import each name in a child process; a crash counts as its error."""
    found: Dict[str, dict] = {}
    while len(found) < len(names):
        left = [n for n in names if n not in found]
        child = subprocess.run([sys.executable, '-c', PROBE, *left],
                               capture_output=True, text=True)
        for line in child.stdout.splitlines():
            if line.startswith('probe '):
                name, result = json.loads(line[len('probe '):])
                found[name] = result
        left = [n for n in left if n not in found]
        if left:
            found[left[0]] = dict(
                error=f'Python ended with status {child.returncode} while '
                'importing it')
    return found


def version_of(dist: str) -> Optional[str]:
    try:
        return importlib.metadata.version(dist)
    except importlib.metadata.PackageNotFoundError:
        return None


def gather() -> Facts:
    """Look at the environment of the running interpreter."""
    names = [d for bounds in (COMMON, *FAMILIES.values())
             for d, _, _ in bounds.values()] + ['qbheat_mm']
    dists = {n: v for n, v in ((n, version_of(n)) for n in names) if v}
    demanded = ''
    if 'torchvision' in dists:
        needs = ' '.join(importlib.metadata.requires('torchvision') or ())
        match = re.search(r'\btorch ?\(?==([\d.]+)', needs)
        demanded = match.group(1) if match else ''
    root = Path(__file__).resolve().parents[1]
    return Facts(
        python='.'.join(map(str, sys.version_info[:3])), dists=dists,
        imports=probe(IMPORTS), torchvision_torch=demanded,
        source=str(root) if (root / 'setup.py').exists() else '')


def report(rows: List[Row]) -> str:
    """Lay the rows out as a table, the commands that mend below it."""
    lines, fixes = [], {}
    for row in rows:
        verdict = f'NO  {row.problem}' if row.problem else row.note or 'ok'
        lines.append(f'{row.part:22}{row.version:24}{row.family:12}{verdict}')
        if row.fix:
            fixes.setdefault(row.fix, []).append(row.part)
    if fixes:
        lines.append('\nTo mend it, in this order:')
        lines += [f'# {", ".join(parts)}\n{fix}'
                  for fix, parts in fixes.items()]
    return '\n'.join(lines)


def main() -> int:
    has_pip = importlib.util.find_spec('pip') is not None
    rows = judge(gather(), Commands(sys.executable, has_pip))
    print(report(rows))
    return int(any(row.problem for row in rows))


if __name__ == '__main__':
    sys.exit(main())
