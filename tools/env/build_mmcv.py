# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Build mmcv with its operators for the torch that is installed; install it.

    python -m qbheat_mm.build_mmcv [--family onedl] [--python PYTHON]

For an environment of one's own that has torch. Takes minutes the first time
on a machine, seconds from the cache after that (QBHEAT_CACHE, by default
~/.cache/qbheat_mm). CUDA operators need a GPU, or FORCE_CUDA=1, and nvcc.
"""
import argparse
import signal
import sys
from pathlib import Path

from installers import Installer
from mmcv_source import MMCV
from mmcv_wheel import cached_wheel
from shell import EnvError, end_in_order, run, say

# All are the module mmcv: the files of one lie over those of another.
SAME_MODULE = ('mmcv', 'mmcv-lite', 'mmcv-full', 'onedl-mmcv')


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog='python -m qbheat_mm.build_mmcv',
        description=__doc__.splitlines()[0])
    parser.add_argument(
        '--family', choices=sorted(MMCV), default='',
        help='whose mmcv: by default the one whose packages are installed, '
        'else upstream')
    parser.add_argument(
        '--python', type=Path, default=Path(sys.executable),
        help="the environment's interpreter, by default this one")
    parser.add_argument(
        '--mmcv-version', default='', metavar='VERSION',
        help='another version than the one that was tried (' +
        ', '.join(' '.join(pair) for pair in MMCV.values()) + ')')
    parser.add_argument('--no-install', action='store_true',
                        help='build the wheel, print where it is')
    return parser.parse_args()


def install(python: Path, wheel: Path) -> None:
    """Install a wheel and what it depends on, in place of any other mmcv."""
    installer = Installer(python)
    run(installer.uninstall(*SAME_MODULE))
    run(installer.install('-q', str(wheel)))
    say(f'installed {wheel.name} for {python}')


def main() -> int:
    args = parse_args()
    signal.signal(signal.SIGTERM, end_in_order)
    try:
        wheel = cached_wheel(args.python.absolute(), args.family,
                             args.mmcv_version)
        if args.no_install:
            print(wheel)
        else:
            install(args.python.absolute(), wheel)
    except EnvError as error:
        print(f'build_mmcv: {error}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == '__main__':
    sys.exit(main())
