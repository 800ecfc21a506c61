# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Packaging, the OpenMMLab way.

The package contains ``configs/``, ``tools/`` and ``model-index.yml`` as
``qbheat_mm/.mim/``: copied into a wheel, linked by an editable install, so
that edits take effect at once.
"""
import os
import re
import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py
from setuptools.command.develop import develop

ROOT = Path(__file__).resolve().parent
PACKAGE = 'qbheat_mm'
MIM_ENTRIES = ('configs', 'tools', 'model-index.yml')
# Also excludes tools that only work in a clone.
NOT_SHIPPED = shutil.ignore_patterns(
    '__pycache__', '.*', 'work_dirs', 'env')


def read_version() -> str:
    """Read the version without importing the package, which needs torch."""
    text = (ROOT / PACKAGE / 'version.py').read_text(encoding='utf-8')
    return re.search(r"^__version__ = '(.+)'$", text, re.M).group(1)


def read_requirements(name: str) -> list:
    """Read ``requirements/{name}.txt``, without comments."""
    path = ROOT / 'requirements' / f'{name}.txt'
    lines = path.read_text(encoding='utf-8').splitlines()
    lines = (line.split('#')[0].strip() for line in lines)
    return [line for line in lines if line]


def remove(path: Path) -> None:
    """Remove a file, a link (not what it points to) or a folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.is_symlink() or path.exists():
        path.unlink()


def copy_entry(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=NOT_SHIPPED)
    else:
        shutil.copy2(source, target)


def make_mim(mim: Path, link: bool) -> None:
    """Recreate ``.mim`` from links to the source tree, or from copies."""
    remove(mim)
    mim.mkdir(parents=True)
    for name in MIM_ENTRIES:
        source, target = ROOT / name, mim / name
        if not source.exists():
            raise FileNotFoundError(f'{source} is missing: build from a '
                                    'complete source tree')
        if link:
            try:
                target.symlink_to(os.path.relpath(source, mim))
                continue
            except OSError:  # file systems or Windows accounts without links
                pass
        copy_entry(source, target)


class BuildPyWithMim(build_py):
    """Wheels copy ``.mim``; pip's ``editable_wheel`` (PEP 660) links it."""

    def run(self) -> None:
        super().run()
        if getattr(self, 'editable_mode', False):
            make_mim(ROOT / PACKAGE / '.mim', link=True)
        else:
            make_mim(Path(self.build_lib) / PACKAGE / '.mim', link=False)


class DevelopWithMim(develop):
    """``setup.py develop``, which runs no ``build_py``."""

    def run(self) -> None:
        make_mim(ROOT / PACKAGE / '.mim', link=True)
        super().run()


if __name__ == '__main__':
    setup(
        name=PACKAGE,
        version=read_version(),
        description='QB-Heat self-supervised pre-training of Mobile-Former '
        'on the OpenMMLab toolboxes',
        license='Apache-2.0',
        classifiers=[
            'Programming Language :: Python :: 3',
            'Operating System :: POSIX',
            'Topic :: Scientific/Engineering :: Artificial Intelligence',
        ],
        # Makes editable installs use a .pth file. An import hook would come
        # after the clone itself if Python runs in the clone's parent folder.
        package_dir={'': '.'},
        packages=find_packages(include=(PACKAGE, f'{PACKAGE}.*')),
        package_data={f'{PACKAGE}.report': ['templates/*.html']},
        python_requires='>=3.10',
        install_requires=read_requirements('runtime'),
        extras_require={
            name: read_requirements(name)
            for name in ('pretrain', 'openmmlab', 'onedl', 'demo', 'export',
                         'tests', 'docs')
        },
        cmdclass=dict(build_py=BuildPyWithMim, develop=DevelopWithMim),
        zip_safe=False)
