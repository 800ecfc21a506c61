# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Arguments that several tools share."""
import ast
import contextlib
import math
import os
import os.path as osp
from argparse import (
    ArgumentError,
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
)
from functools import partial
from pathlib import Path

import torch
from mmengine.config import Config, DictAction

from ..engine.run_state import best, latest
from ..errors import UserError
from ..trained.encoder import POOLS


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


def find_checkpoint(path: str, option: str) -> str:
    """Return a checkpoint's file or URL, given that or a work folder.

    A work folder stands for its best checkpoint, or the last.

    Raises:
        UserError: If there is none; the message names the option.
    """
    if osp.isdir(path):
        path = best(path) or latest(path) or path
    require_file(path, option)
    return path


def add_heads(parser: ArgumentParser, **kwargs) -> None:
    """Add the repeatable ``--head``."""
    parser.add_argument(
        '--head', action='append', dest='heads', metavar='NAME=RUN',
        help='NAME=CONFIG:CHECKPOINT or NAME=WORK_FOLDER: a classifier or '
        'detector on the frozen encoder that all heads share, under any name; '
        'a work folder stands for its config and its best checkpoint, or the '
        'last; repeatable',
        **kwargs)


def add_embedding_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``apis.embed_batches``, and ``--config``."""
    parser.add_argument(
        '--config', help='config file or name, for a checkpoint that contains '
        'only weights')
    parser.add_argument(
        '--pool', choices=POOLS, default='avg',
        help='mean of the features, first token, both, or maximum of the '
        'features; defaults to avg')
    parser.add_argument(
        '--size', type=whole, nargs='+', metavar='PIXELS',
        help='side, or height and width, to scale and crop images to; '
        'defaults to the training size, or 224; 0 keeps the size of each '
        'image, rounded to multiples of 32')
    parser.add_argument(
        '--batch-size', type=count, default=64,
        help='images per batch; defaults to 64')
    parser.add_argument(
        '--workers', type=whole, default=0,
        help='processes that decode images; defaults to 0')
    add_device(parser)


def analysis_parser(description: str,
                    images: bool = True,
                    compare: bool = False) -> ArgumentParser:
    """Create the argument parser of an analysis tool.

    Args:
        description (str): Description of the tool.
        images (bool): Whether the tool takes one checkpoint and images, or
            else several checkpoints. Defaults to True.
        compare (bool): Whether the tool compares encoders. Defaults to False.
    """
    parser = ArgumentParser(description=description)
    parser.add_argument('config', help='config file')
    parser.add_argument('checkpoint', nargs=None if images else '+',
                        help='checkpoint file or URL')
    if images:
        parser.add_argument(
            'images', nargs='+', help='image files or folders of images')
        parser.add_argument(
            '--max-images', type=count, metavar='N',
            help='take N images, spread evenly over all given ones')
        parser.add_argument(
            '--size', type=whole, nargs='+', metavar='PIXELS',
            help='side, or height and width, to scale and crop images to, '
            'rounded to what the model accepts; defaults to the training '
            'size; 0 keeps the size of each image')
    parser.add_argument(
        '--out', required=True, type=folder, help='folder for results')
    if compare:
        parser.add_argument(
            '--also', nargs=2, action='append', default=[],
            metavar=('CONFIG', 'CHECKPOINT'),
            help='another encoder to compare with; repeatable')
        parser.add_argument(
            '--names', nargs='+', default=[], metavar='NAME',
            help='names of the encoders in the figure; defaults to those of '
            'their configs')
    add_device(parser)
    add_cfg_options(parser)
    return parser
