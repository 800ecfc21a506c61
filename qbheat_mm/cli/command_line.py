# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Arguments that all tools know, and errors in one line."""
import ast
import contextlib
import math
import os
import os.path as osp
import re
import sys
from argparse import ArgumentError, ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterator

from mmengine.config import DictAction

from ..errors import UserError
from ..utils.devices import require_device
from .explain import TRACEBACK, explain


class KeyValueAction(DictAction):
    """mmengine's ``KEY=VALUE`` arguments with a message for the rest.

    Blanks within a value stay, as those of a path or of the name of a class;
    in quotes a value may hold commas, too: ``data_root="'my, images'"``.
    Dicts are written as in Python: ``clip_grad="{'max_norm': 3.0}"``.
    """

    @staticmethod
    def _parse_iterable(val: str):
        text = val.strip('\'"')
        if re.match(r'[\[(\s]*\{.*[\])}]\s*$', text, re.DOTALL):
            return _literal(text)
        bare = text.strip()
        depths = list(_depths(bare))
        # Not so "(old) images", whose first bracket is closed before its end.
        if bare.startswith(('(', '[')) and 0 not in depths[:-1]:
            return _items(bare)
        if text == val and (',', 0) in zip(bare, depths):
            return _items(f'[{bare}]')
        return DictAction._parse_int_float_bool(bare)

    def __call__(self, parser, namespace, values, option_string=None):
        for value in values:
            if '=' not in value:
                raise ArgumentError(
                    self, f"'{value}' is not KEY=VALUE; write no space "
                    'around = and quote values that hold spaces')
        try:
            super().__call__(parser, namespace, values, option_string)
        except AssertionError as error:
            raise ArgumentError(self, str(error)) from error


def _depths(text: str) -> Iterator[int]:
    """How many brackets are open after each character."""
    depth = 0
    for sign in text:
        depth += (sign in '([') - (sign in ')]')
        yield depth


def _items(text: str) -> list | tuple:
    """A list in brackets: as in Python, or without quotes as in mmengine."""
    with contextlib.suppress(ValueError, SyntaxError):
        items = ast.literal_eval(text)
        if isinstance(items, list | tuple):
            return items
    # mmengine drops all blanks; those between items may go.
    text = re.sub(r'(?<=[,(\[])\s+|\s+(?=[,)\]])', '', text)
    return _with_blanks(DictAction._parse_iterable(text.replace(' ', '\0')))


def _with_blanks(value):
    if isinstance(value, list | tuple):
        return type(value)(map(_with_blanks, value))
    return value.replace('\0', ' ') if isinstance(value, str) else value


def _literal(text: str) -> dict | list | tuple:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:
        raise AssertionError(
            f'{text} cannot be read: write dicts as in Python, names and '
            'texts in quotes, and all of it in others: '
            '"{\'type\': \'NAME\'}"') from error


def quoted(text: str) -> str:
    """A text that :class:`KeyValueAction` takes for one value."""
    return f"'{text}'" if ',' in text else text


def count(text: str) -> int:
    """The type of arguments that are positive integers.

    Raises:
        ArgumentTypeError: For another text.
    """
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"'{text}' is not a positive integer")
    return int(text)


def whole(text: str) -> int:
    """The type of arguments that are whole numbers from 0 on.

    Raises:
        ArgumentTypeError: For another text.
    """
    if not text.isascii() or not text.isdigit():
        raise ArgumentTypeError(f"'{text}' is not a whole number from 0 on")
    return int(text)


def positive(text: str) -> float:
    """The type of arguments that are finite numbers above 0.

    Raises:
        ArgumentTypeError: For another text.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ArgumentTypeError(f"'{text}' is not a number above 0: give one")
    return number


def device(text: str) -> str:
    """The type of arguments that name a device of torch that is there.

    Raises:
        ArgumentTypeError: For another text.
    """
    try:
        require_device(text)
    except UserError as error:
        raise ArgumentTypeError(str(error)) from error
    return text


def folder(text: str) -> str:
    """The type of arguments that name a folder to write into.

    It need not be there; nothing is made yet.

    Raises:
        ArgumentTypeError: If it cannot be made or written.
    """
    there = osp.abspath(text)
    while not osp.lexists(there):
        there = osp.dirname(there)
    if not text or not osp.isdir(there) or not os.access(there, os.W_OK):
        raise ArgumentTypeError(
            f"'{text}' is no folder that can be written: '{there}' is in the "
            'way' if text else 'the name of the folder is empty')
    return text


def target(text: str) -> str:
    """The type of arguments that name a file to write.

    Raises:
        ArgumentTypeError: If it cannot be written: better now than when the
            work is done.
    """
    if not text or osp.isdir(text):
        raise ArgumentTypeError(f"'{text}' is a folder: give a file in it"
                                if text else 'the name of the file is empty: '
                                'give one')
    folder(osp.dirname(osp.abspath(text)))
    if osp.exists(text) and not os.access(text, os.W_OK):
        raise ArgumentTypeError(f"'{text}' cannot be written: change its "
                                'permissions or give another file')
    return text


def add_cfg_options(parser: ArgumentParser, more: str = '') -> None:
    """Let a tool change settings of its configuration."""
    parser.add_argument(
        '--cfg-options', nargs='+', action=KeyValueAction,
        metavar='KEY=VALUE',
        help=f'settings that replace those of the configuration{more}')


def add_device(parser: ArgumentParser) -> None:
    """Let a tool run elsewhere than on the CPU."""
    parser.add_argument(
        '--device', type=device, default='cpu',
        help="as 'cuda:0'; defaults to the CPU")


def add_common_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of mmdet's and mmpretrain's tools alike."""
    parser.add_argument('config', help='configuration file')
    parser.add_argument(
        '--work-dir',
        type=folder,
        help='folder for logs and checkpoints; by default the work_dir of '
        'the configuration or work_dirs/NAME_OF_THE_CONFIGURATION')
    add_cfg_options(parser, ', as train_dataloader.batch_size=4 or '
                    'model.neck.in_channels="[8,16]"')
    parser.add_argument(
        '--launcher',
        choices=['none', 'pytorch', 'slurm', 'mpi'],
        default='none',
        help='what has started the processes of a distributed run; '
        'tools/dist_*.sh set it')
    # Older launchers pass the rank as an argument, torchrun does not.
    parser.add_argument(
        '--local_rank', '--local-rank', type=int, default=0,
        help='set by some launchers')


def report_user_errors(main: Callable[[], None]) -> None:
    """Run a tool; end with one line where the user can mend the error.

    Defects keep their traceback; see :mod:`.explain` for the border.

    Args:
        main (Callable): The tool.

    Raises:
        SystemExit: With status 1, for an error told in one line.
    """
    try:
        main()
    except Exception as error:
        line = explain(error)
        if line is None or os.environ.get(TRACEBACK) == '1':
            raise
        rank = os.environ.get('RANK', '0')
        where = '' if rank == '0' else f' (process {rank})'
        sys.exit(f'error{where}: {line}')
