# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The heads that a command line names."""
import re
from argparse import ArgumentParser
from collections.abc import Sequence

from ..apis import Heads, load_heads
from ..errors import UserError
from .settings import read_config, require_file

# Paths and addresses contain colons as well: a config ends at its extension.
_HEAD = re.compile(
    r'(?P<name>[\w-]+)=(?P<config>.+?\.(?:py|json|ya?ml)):(?P<checkpoint>.+)')


def add_heads(parser: ArgumentParser, **kwargs) -> None:
    """Add ``--head``, which may be given several times."""
    parser.add_argument(
        '--head', action='append', dest='heads',
        metavar='NAME=CONFIG:CHECKPOINT',
        help='a classifier or detector on the frozen encoder that all heads '
        'share, by a name of your choice; repeat it for each', **kwargs)


def heads_of(given: Sequence[str], device: str = 'cpu') -> Heads:
    """Load the heads that ``--head`` names.

    Raises:
        UserError: If one is malformed or named twice, or they do not share
            an encoder.
    """
    files = {}
    for name, config, checkpoint in map(split_head, given):
        if name in files:
            raise UserError(f"--head '{name}' is given twice: give each head "
                            'a name of its own')
        require_file(checkpoint, f'--head {name}')
        files[name] = read_config(config), checkpoint
    return load_heads(files, device)


def split_head(text: str) -> tuple[str, str, str]:
    """Name, config and checkpoint of a head, as given for ``--head``.

    Raises:
        UserError: If the text is something else.
    """
    match = _HEAD.fullmatch(text)
    if not match:
        raise UserError(
            f"--head '{text}' is not NAME=CONFIG:CHECKPOINT, as "
            'boxes=retinanet.py:epoch_12.pth; a name has letters, digits, _ '
            'and -')
    return match.groups()
