# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Build sdist and wheel into dist/ and try the wheel: ``make release``.

The wheel is made from the sdist, installed into a fresh environment and used
there, from an empty folder (smoke.py). That environment borrows the toolboxes
of ``.venv``; ``RELEASE_FROM_INDEX=1`` installs them anew as the README says,
which downloads torch.
"""
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / 'dist'
BACKEND = ('import sys, setuptools.build_meta as backend; '
           'print(getattr(backend, sys.argv[1])(sys.argv[2]))')


def run(*command, cwd: Path, **environment: str) -> str:
    """Run a command; its last line. What it prints is shown if it fails."""
    result = subprocess.run(
        list(map(str, command)), cwd=cwd, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env={**os.environ, **environment})
    if result.returncode:
        print(result.stdout, file=sys.stderr)
        raise SystemExit(f'make release: this failed, see above: '
                         f'{" ".join(map(str, command[:4]))}')
    return (result.stdout.strip().splitlines() or [''])[-1]


def check_notes(version: str) -> None:
    """Stop where the change log does not know the version."""
    notes = (ROOT / 'CHANGELOG.md').read_text(encoding='utf-8')
    cited = (ROOT / 'CITATION.cff').read_text(encoding='utf-8')
    if not re.search(rf'^## \[{re.escape(version)}\] - \d', notes, re.M):
        raise SystemExit(f'make release: CHANGELOG.md has no section '
                         f'[{version}] with a date: write it')
    if f'version: {version}\n' not in cited:
        raise SystemExit(f'make release: CITATION.cff is not of {version}: '
                         'change its version and date-released')


def build(folder: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it."""
    sdist = folder / run(sys.executable, '-c', BACKEND, 'build_sdist', folder,
                         cwd=ROOT)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter='data')
    source = folder / sdist.name.removesuffix('.tar.gz')
    wheel = folder / run(sys.executable, '-c', BACKEND, 'build_wheel', folder,
                         cwd=source)
    return sdist, wheel


def fresh_python(folder: Path, wheel: Path) -> Path:
    """An environment with the wheel; its interpreter."""
    venv.create(folder, with_pip=True)
    python = folder / 'bin' / 'python'
    pip = [python, '-m', 'pip', 'install', '--quiet']
    if os.environ.get('RELEASE_FROM_INDEX') == '1':
        run(*pip, 'torch', 'torchvision', 'setuptools<81', 'wheel',
            cwd=folder)
        run(*pip, '--no-build-isolation', f'{wheel}[pretrain]', cwd=folder)
        return python
    run(*pip, '--no-deps', '--no-index', wheel, cwd=folder)
    site = next(folder.glob('lib/python*/site-packages'))
    # Read after the environment's own: the project, editable there, is not
    # taken from it.
    (site / 'borrowed.pth').write_text(sysconfig.get_path('purelib') + '\n')
    return python


def main() -> None:
    text = (ROOT / 'qbheat_mm/version.py').read_text(encoding='utf-8')
    version = re.search(r"^__version__ = '(.+)'$", text, re.M)[1]
    check_notes(version)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files = build(folder)
        python = fresh_python(folder / 'environment', files[1])
        empty = folder / 'empty'
        empty.mkdir()
        smoke = shutil.copy(Path(__file__).with_name('smoke.py'), empty)
        print(run(python, smoke, version, cwd=empty, PYTHONPATH=''))
        DIST.mkdir(exist_ok=True)
        for file in files:
            print(shutil.copy(file, DIST))


if __name__ == '__main__':
    main()
