# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Build sdist and wheel into dist/ and try the wheel: ``make release``.

The wheel is built from the sdist, installed into a fresh environment, and
used from an empty folder (smoke.py). That environment borrows the toolboxes
of ``.venv``; ``RELEASE_FROM_INDEX=1`` installs them, which downloads torch.
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


def run(*command, cwd: Path) -> str:
    """Run a command without PYTHONPATH; return its last line."""
    result = subprocess.run(
        list(map(str, command)), cwd=cwd, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env={**os.environ, 'PYTHONPATH': ''})
    if result.returncode:
        print(result.stdout, file=sys.stderr)
        raise SystemExit('make release: this failed, see above: '
                         + ' '.join(map(str, command[:4])))
    return (result.stdout.strip().splitlines() or [''])[-1]


def check_notes(version: str) -> None:
    """Stop unless changelog and citation are of this version."""
    notes = (ROOT / 'CHANGELOG.md').read_text(encoding='utf-8')
    if not re.search(rf'^## \[{re.escape(version)}\] - \d', notes, re.M):
        raise SystemExit('make release: CHANGELOG.md has no section '
                         f'[{version}] with a date')
    cited = (ROOT / 'CITATION.cff').read_text(encoding='utf-8')
    if f'version: {version}\n' not in cited:
        raise SystemExit(f'make release: CITATION.cff is not of {version}')


def build(folder: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it."""
    sdist = folder / run(sys.executable, '-c', BACKEND, 'build_sdist', folder,
                         cwd=ROOT)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter='data')
    source = folder / sdist.name.removesuffix('.tar.gz')
    return sdist, folder / run(sys.executable, '-c', BACKEND, 'build_wheel',
                               folder, cwd=source)


def fresh_python(folder: Path, wheel: Path) -> Path:
    """Install the wheel into a new environment; return its interpreter."""
    venv.create(folder, with_pip=True)
    python = folder / 'bin' / 'python'
    pip = [python, '-m', 'pip', 'install', '--quiet']
    if os.environ.get('RELEASE_FROM_INDEX') == '1':
        run(*pip, 'torch', 'torchvision', 'setuptools<81', 'wheel',
            cwd=folder)
        run(*pip, '--no-build-isolation', f'{wheel}[pretrain]', cwd=folder)
    else:
        run(*pip, '--no-deps', '--no-index', wheel, cwd=folder)
        site = next(folder.glob('lib/python*/site-packages'))
        (site / 'borrowed.pth').write_text(sysconfig.get_path('purelib'))
    return python


def main() -> None:
    """Build, try, and copy to dist/."""
    text = (ROOT / 'qbheat_mm/version.py').read_text(encoding='utf-8')
    version = re.search(r"^__version__ = '(.+)'$", text, re.M)[1]
    check_notes(version)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files = build(folder)
        python = fresh_python(folder / 'environment', files[1])
        (folder / 'empty').mkdir()
        smoke = shutil.copy(Path(__file__).with_name('smoke.py'),
                            folder / 'empty')
        print(run(python, smoke, version, cwd=folder / 'empty'))
        DIST.mkdir(exist_ok=True)
        for file in files:
            print(shutil.copy(file, DIST))


if __name__ == '__main__':
    main()
