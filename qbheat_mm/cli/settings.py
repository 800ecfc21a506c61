# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Apply the command line to configs."""
import os
import os.path as osp
from argparse import Namespace
from pathlib import Path

from mmengine.config import Config

from ..errors import UserError


def apply_common_arguments(cfg: Config, args: Namespace) -> None:
    """Apply ``--launcher`` and ``--work-dir``."""
    cfg.launcher = args.launcher
    cfg.work_dir = args.work_dir or cfg.get('work_dir') or osp.join(
        'work_dirs', Path(args.config).stem)


def require_file(path: str, option: str) -> None:
    """Raise UserError, naming the option, unless a path is a file or URL."""
    if '://' not in path and not osp.isfile(path):
        raise UserError(f"checkpoint '{path}' ({option}) is not a file "
                        f"(looked in '{os.getcwd()}')")


