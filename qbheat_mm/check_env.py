# Copyright (c) QB-Heat MM authors. All rights reserved.
"""``python -m qbheat_mm.check_env``: check this environment.

Imports everything, trains one step, and prints all versions and a command
that fixes the first problem; the exit status is then 1. Standard library only,
since this must run where everything else is missing or broken.
"""
import contextlib
import importlib.metadata
import importlib.util
import json
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

# Import name: distribution, supported versions.
# torch 2.6 is the first with safe globals, which mmengine's checkpoints need.
# mmdet 3.3.0 asserts mmcv < 2.2.0. mmengine and mim import pkg_resources;
# setuptools 81 dropped it.
COMMON = dict(
    numpy=('numpy', '>=1.26'),
    pkg_resources=('setuptools', '>=40,<81'),
    torch=('torch', '>=2.6'),
    torchvision=('torchvision', '>=0.21'))
FAMILIES = dict(
    upstream=dict(
        mmengine=('mmengine', '>=0.10.7,<1.0.0'),
        mmcv=('mmcv', '>=2.1.0,<2.2.0'),
        mmpretrain=('mmpretrain', '>=1.2.0,<2.0.0'),
        mmdet=('mmdet', '>=3.3.0,<4.0.0'),
        mim=('openmim', '>=0.3.9')),
    onedl=dict(
        mmengine=('onedl-mmengine', '>=0.10.12,<1.0.0'),
        mmcv=('onedl-mmcv', '>=2.3.6,<2.4.0'),
        mmpretrain=('onedl-mmpretrain', '>=1.3.6,<2.0.0'),
        mmdet=('onedl-mmdetection', '>=3.5.1,<4.0.0'),
        mim=('onedl-mim', '>=0.5.1')),
    # Without compiled operators: everything except detection.
    lite=dict(
        mmengine=('mmengine', '>=0.10.7,<1.0.0'),
        mmcv=('mmcv-lite', '>=2.1.0,<2.2.0'),
        mmpretrain=('mmpretrain', '>=1.2.0,<2.0.0')))
IMPORTS = (*COMMON, 'mmengine', 'mmcv', 'mmcv.ops', 'mmpretrain', 'mmdet',
           'mim', 'qbheat_mm', 'training')
EXTRAS = dict(upstream='openmmlab', onedl='onedl', lite='pretrain')
PYTHON = shlex.quote(sys.executable)

# Runs in its own process, since importing a broken binary may crash.
PROBE = """
import importlib, json, sys, tempfile, warnings
warnings.simplefilter('ignore')

def train():
    from PIL import Image
    from qbheat_mm.apis import pretrain
    with tempfile.TemporaryDirectory() as folder:
        for i in range(2):
            Image.new('RGB', (64, 64), (i, 0, 0)).save(f'{folder}/{i}.png')
        pretrain(folder, f'{folder}/run', epochs=1, size=64, workers=1)

for name in sys.argv[1:]:
    found = dict(error='')
    try:
        if name == 'training':
            train()
        else:
            module = importlib.import_module(name)
        if name == 'torch' and module.cuda.is_available():
            found['gpu'] = module.cuda.get_device_name()
        if name == 'mmcv.ops':  # a binary for another torch may import
            import torch
            module.nms(torch.ones(1, 4), torch.ones(1), 0.5)
            found['cuda'] = module.get_compiling_cuda_version()
    except BaseException as error:
        text = ' '.join(str(error).split())
        found['error'] = f'{type(error).__name__}: {text}'
    print('probe ' + json.dumps([name, found]), flush=True)
"""


class Problem(NamedTuple):
    """What is wrong with a part, and the command that fixes it."""
    part: str
    text: str
    fix: str


def pip(command: str, *requirements: str) -> str:
    """Return a command of pip, or of uv in an environment without pip."""
    tool = (f'{PYTHON} -m pip {command}' if importlib.util.find_spec('pip')
            else f'uv pip {command.replace(" -y", "")} --python {PYTHON}')
    return f'{tool} {shlex.join(requirements)}'


def fits(version: str, supported: str) -> bool:
    """Whether a version fits a range such as '>=2.1' or '>=2.1,<2.2'."""
    low, _, high = supported.removeprefix('>=').partition(',<')
    given = _numbers(version)
    return _numbers(low) <= given and (not high or given < _numbers(high))


def _numbers(version: str) -> tuple[int, ...]:
    """Return (2, 6, 0) for '2.6.0+cpu'."""
    release = re.match(r'[\d.]*', version).group()
    return tuple(map(int, re.findall(r'\d+', release)))


def find_family(dists: Iterable[str]) -> str:
    """Return the family of the installed distributions, or upstream."""
    if any(dist.startswith('onedl-') for dist in dists):
        return 'onedl'
    lite = 'mmcv-lite' in dists and not {'mmcv', 'mmdet'} & {*dists}
    return 'lite' if lite else 'upstream'


def parts_of(family: str) -> dict[str, tuple[str, str]]:
    """Return what a family needs, in the order of imports."""
    return {**COMMON, **FAMILIES[family], 'qbheat_mm': ('qbheat_mm', '>=0')}


def clone() -> str:
    """Return the source tree, '.' if installed from a wheel."""
    root = Path(__file__).resolve().parents[1]
    return str(root) if (root / 'setup.py').exists() else '.'


def install(name: str, family: str, dists: Mapping) -> str:
    """Return the command that installs a part of a family."""
    if name == 'qbheat_mm':
        return pip('install', '--no-deps', '--no-build-isolation', '-e',
                   clone())
    wanted = ''.join(parts_of(family)[name])
    if name in ('torch', 'torchvision'):  # uv takes matching builds of both
        torch = dists.get('torch', '0').split('+')[0]
        if fits(torch, COMMON['torch'][1]):
            wanted = f'torch=={torch}'
        return (f'{pip("install", "uv")} && {PYTHON} -m uv pip install '
                f'--python {PYTHON} --reinstall-package torch '
                f'--reinstall-package torchvision {wanted!r} torchvision')
    if name == 'mmcv':
        option = ' --family onedl' if family == 'onedl' else ''
        return f'{PYTHON} -m qbheat_mm.build_mmcv{option}'
    return pip('install', wanted)


def repair(name: str, family: str, dists: Mapping, error: str) -> str:
    """Return the command that repairs a part whose import fails."""
    # opencv-python needs a display's libraries.
    if re.search(r'lib(GL|gthread|SM|ICE|X\w+)\W', error):
        return pip('uninstall -y', 'opencv-python') + ' && ' + pip(
            'install', '--force-reinstall', '--no-deps',
            'opencv-python-headless')
    if "No module named 'pkg_resources'" in error:
        return pip('install', 'setuptools<81')
    if name in ('qbheat_mm', 'training'):
        return pip('install', '-e', f'{clone()}[{EXTRAS[family]}]')
    if name in ('mmcv', 'torch', 'torchvision'):
        return install(name, family, dists)
    dist, _ = parts_of(family)[name]
    missing = re.search(rf"No module named '(?!{name}\b)", error)
    again = [] if missing else ['--force-reinstall', '--no-deps']
    return pip('install', *again, f'{dist}=={dists[dist]}')


def find_problems(dists: Mapping, imports: Mapping) -> list[Problem]:
    """Return problems in the order in which to fix them.

    Args:
        dists (Mapping): Versions of the installed distributions.
        imports (Mapping): For each of :data:`IMPORTS` the ``error`` of
            importing it (or of training), '' for none; ``gpu`` for torch,
            ``cuda`` (a version) for mmcv.ops.
    """
    problems = list(find_broken_parts(dists, imports))
    error = imports['training']['error']
    if error and not problems:
        problems.append(Problem('training', error, repair(
            'training', find_family(dists), dists, error)))
    return problems


def find_broken_parts(dists: Mapping, imports: Mapping) -> Iterator[Problem]:
    """Yield the problems of each part."""
    family = find_family(dists)
    others = {'qbheat_mm', *(dist for dist, _ in COMMON.values())}
    toolboxes = sorted({*dists} - others)
    if family == 'onedl' and any('onedl-' not in dist for dist in toolboxes):
        yield Problem('families', "upstream and onedl overwrite each other's "
                      'files: remove both, then install one',
                      pip('uninstall -y', *toolboxes))
    for name, (dist, supported) in parts_of(family).items():
        version, error = dists.get(dist), imports[name]['error']
        fix = install(name, family, dists)
        if dist == 'mmcv' and 'mmcv-lite' in dists:
            yield Problem(dist, 'mmcv-lite replaces it, without the operators '
                          'that detection needs', fix)
        elif not version:
            yield Problem(dist, 'missing', fix)
        elif not fits(version, supported):
            yield Problem(dist, f'needs {supported}', fix)
        elif error:
            yield Problem(dist, error, repair(name, family, dists, error))
        if name == 'mmcv' and family != 'lite':
            ops, gpu = imports['mmcv.ops'], imports['torch'].get('gpu')
            if ops['error']:
                yield Problem('mmcv.ops', ops['error'], fix)
            elif gpu and not re.match(r'\d', ops['cuda']):
                yield Problem('mmcv.ops', 'built for the CPU only, so '
                              f'detection fails on the {gpu}; put nvcc on the '
                              'PATH', f'FORCE_CUDA=1 {fix}')


def probe(names: Sequence[str]) -> dict[str, dict]:
    """Import modules, and train, in a child process until it crashes."""
    child = subprocess.run([sys.executable, '-c', PROBE, *names],
                           capture_output=True, text=True)
    imports = {}
    for line in child.stdout.splitlines():
        if line.startswith('probe '):
            name, result = json.loads(line.removeprefix('probe '))
            imports[name] = result
    error = f'crashes Python ({child.returncode})'
    for name in names:
        if name not in imports:
            imports[name], error = dict(error=error, cuda=''), ''
    return imports


def installed() -> dict[str, str]:
    """Return the versions of the installed distributions that matter here."""
    dists = {}
    for family in FAMILIES:
        for dist, _ in parts_of(family).values():
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                dists[dist] = importlib.metadata.version(dist)
    return dists


def report(dists: Mapping, problems: Sequence[Problem]) -> str:
    """Format versions, problems, and the command for the first of them."""
    texts = dict.fromkeys(dists, 'ok')
    for problem in problems:
        texts[problem.part] = f'NO  {problem.text}'
    lines = [f'{part:20}{dists.get(part, "-"):20}{text}'
             for part, text in texts.items()]
    if sum(problem.text == 'missing' for problem in problems) > 2:
        lines.append('\nMost packages are missing: run `make env` in the '
                     'clone or install them, see docs/installation.md')
    elif problems:
        lines.append(f'\nTo fix {problems[0].part}, then check again:\n'
                     f'{problems[0].fix}')
    return '\n'.join(lines)


def main() -> int:
    """Print the report; return 1 if there is a problem."""
    dists, imports = installed(), probe(IMPORTS)
    problems = find_problems(dists, imports)
    print(f'Python {platform.python_version()}, GPU: '
          f'{imports["torch"].get("gpu") or "none"}, CUDA operators: '
          f'{imports["mmcv.ops"].get("cuda") or "none"}')
    print(report(dists, problems))
    return int(bool(problems))


if __name__ == '__main__':
    sys.exit(main())
