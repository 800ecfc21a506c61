# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The heads that a command line names."""
import re
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from ..apis import Heads, load_heads
from ..engine.resume import latest
from ..errors import UserError
from .settings import read_config, require_file

_HEAD = re.compile(r'([\w-]+)=(.+)')
_FORMS = 'NAME=CONFIG:CHECKPOINT or NAME=WORK_FOLDER'
# Paths and addresses contain colons as well: a config ends at its extension.
_FILES = re.compile(r'(.+?\.(?:py|json|ya?ml)):(.+)')


def add_heads(parser: ArgumentParser, **kwargs) -> None:
    """Add ``--head``, which may be given several times."""
    parser.add_argument(
        '--head', action='append', dest='heads',
        metavar='NAME=RUN', help=f'{_FORMS}: a classifier or detector on the '
        'frozen encoder that all heads share, by a name of your choice; the '
        'work folder of a run has its config and last checkpoint; repeat it '
        'for each', **kwargs)


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
            f"--head '{text}' is not {_FORMS}, as "
            'boxes=retinanet.py:epoch_12.pth; a name has letters, digits, _ '
            'and -')
    name, run = match.groups()
    files = _FILES.fullmatch(run)
    return (name, *(files.groups() if files else _last_of(name, run)))


def _last_of(name: str, folder: str) -> tuple[str, str]:
    """Config and last checkpoint in the work folder of a run."""
    configs, checkpoint = [*Path(folder).glob('*.py')], latest(folder)
    if len(configs) != 1 or checkpoint is None:
        raise UserError(
            f"--head '{name}={folder}' is not {_FORMS}: a work folder has "
            'one config and a checkpoint')
    return str(configs[0]), checkpoint
