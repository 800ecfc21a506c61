# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Shared arguments and error reporting."""
import ast
import contextlib
import io
import json
import math
import os
import os.path as osp
import shlex
import sys
import time
from argparse import ArgumentError, ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from functools import partial
from pathlib import Path

from mmengine.config import DictAction

from ..errors import UserError


class KeyValueAction(DictAction):
    """mmengine's ``KEY=VALUE`` arguments, keeping blanks in values.

    Values are Python literals (``clip_grad="{'max_norm': 3.0}"``,
    ``data_root="'my, images'"``), or else what mmengine makes of them
    (``true``, ``a,b``, ``[a,(1,2)]``, text).
    """

    def __call__(self, parser, namespace, values, option_string=None):
        """Add the options in ``values`` to ``namespace``."""
        for option in values:
            if '=' not in option:
                raise ArgumentError(self, f"'{option}' is not KEY=VALUE")
        super().__call__(parser, namespace, values, option_string)

    @staticmethod
    def _parse_iterable(text: str):
        try:
            value = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError):
            if text.startswith('{'):
                raise ArgumentError(None, f'{text} is not a Python dict: '
                                    'quote names and strings') from None
            # mmengine has no public parser, and this one removes blanks.
            value = DictAction._parse_iterable(text)
            return text if isinstance(value, str) else value
        if isinstance(value, tuple) and not text.startswith('('):
            return list(value)
        return value


def _integer(low: int, text: str) -> int:
    if text.isdecimal() and int(text) >= low:
        return int(text)
    raise ArgumentTypeError(f"'{text}' must be an integer of at least {low}")


#: Parse a positive integer.
count = partial(_integer, 1)
#: Parse a non-negative integer.
whole = partial(_integer, 0)


def positive(text: str) -> float:
    """Parse a positive finite number."""
    with contextlib.suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise ArgumentTypeError(f"'{text}' must be positive")


def share(text: str) -> float:
    """Parse a share between 0 and 1."""
    if positive(text) < 1:
        return float(text)
    raise ArgumentTypeError(f"'{text}' must be below 1")


def device(text: str) -> str:
    """Check that a torch device is available."""
    import torch
    try:
        torch.empty(0, device=text).tolist()  # fails on the meta device
    except Exception as error:  # the type depends on the backend
        raise ArgumentTypeError(f"'{text}' is not an available device "
                                f'({str(error).splitlines()[0]})') from error
    return text


def folder(text: str) -> str:
    """Check that a folder can be created or written to."""
    existing = osp.abspath(text)
    while not osp.lexists(existing):
        existing = osp.dirname(existing)
    if not text or not osp.isdir(existing) or not os.access(
            existing, os.W_OK):
        raise ArgumentTypeError(
            f"'{text}' is not a writable folder (see '{existing}')")
    return text


def target(text: str) -> str:
    """Check that a file can be written."""
    if not text or osp.isdir(text):
        raise ArgumentTypeError(f"'{text}' is not a file name")
    folder(osp.dirname(osp.abspath(text)))
    if osp.exists(text) and not os.access(text, os.W_OK):
        raise ArgumentTypeError(f"'{text}' is not writable")
    return text


def add_cfg_options(parser: ArgumentParser, more: str = '') -> None:
    """Add ``--cfg-options``."""
    parser.add_argument(
        '--cfg-options', nargs='+', action=KeyValueAction,
        metavar='KEY=VALUE',
        help=f'override settings of the config{more}')


def add_device(parser: ArgumentParser) -> None:
    """Add ``--device``."""
    parser.add_argument(
        '--device', type=device, default='cpu',
        help="e.g. 'cuda:0'; defaults to 'cpu'")


def add_common_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``tools/train.py`` and ``tools/test.py``."""
    parser.add_argument('config', help='config file')
    parser.add_argument(
        '--work-dir', type=folder,
        help='folder for logs and checkpoints; defaults to work_dir in the '
        'config, or work_dirs/CONFIG_NAME')
    add_cfg_options(parser, ', e.g. train_dataloader.batch_size=4 or '
                    'model.neck.in_channels="[8,16]"')
    parser.add_argument(
        '--launcher', choices=['none', 'pytorch', 'slurm', 'mpi'],
        default='none', help='job launcher; tools/dist_*.sh set it')
    # Older launchers pass the rank as an argument, torchrun doesn't.
    parser.add_argument(
        '--local_rank', '--local-rank', type=int, default=0,
        help='set by some launchers')


def report_user_errors(main: Callable[[], None]) -> None:
    """Run a tool; print a :class:`UserError` as one line.

    Other exceptions keep their traceback and get the command as last line,
    since messages of other packages rarely name the setting. What cannot be
    printed, as file names that are not UTF-8, is escaped.

    Raises:
        SystemExit: With status 1, after a :class:`UserError`.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # not in notebooks
        sys.stdout.reconfigure(errors='backslashreplace')
    try:
        main()
    except UserError as error:
        line = f'error: {_last_line(error)}'
        # torchrun prints the message from this file last.
        file = os.environ.get('TORCHELASTIC_ERROR_FILE')
        if file:
            Path(file).write_text(json.dumps(
                dict(message=line, timestamp=int(time.time()))))
        sys.exit(1 if file else line)
    except Exception as error:
        if hasattr(error, 'add_note'):  # Python 3.11
            error.add_note(f'while running {shlex.join(sys.argv)}: '
                           f'{type(error).__name__}: {_last_line(error)}')
        raise


def _last_line(error: Exception) -> str:
    """Last line of a message; data loader workers send tracebacks."""
    last = (str(error).strip().splitlines() or [''])[-1]
    return last.removeprefix('qbheat_mm.errors.UserError: ')
