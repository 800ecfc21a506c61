# Copyright (c) QB-Heat MM authors. All rights reserved.
"""``python -m qbheat_mm.build_mmcv``: mmcv's operators for this very torch.

Runs ``tools/env/build_mmcv.py``, which travels with the package. It needs
Python and torch alone, for it must run where the toolboxes are missing.
"""
import runpy
import sys
from pathlib import Path


def tools_folder() -> Path:
    """Where ``tools/env`` is: beside an installed package or a checkout's."""
    package = Path(__file__).resolve().parent
    for folder in (package / '.mim' / 'tools', package.parent / 'tools'):
        if (folder / 'env' / 'build_mmcv.py').is_file():
            return folder / 'env'
    raise SystemExit(f'build_mmcv: {package} was installed without its '
                     'tools: install qbheat_mm again')


if __name__ == '__main__':
    folder = tools_folder()
    sys.path.insert(0, str(folder))
    runpy.run_path(str(folder / 'build_mmcv.py'), run_name='__main__')
