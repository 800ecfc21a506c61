# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Load the heads given on the command line."""
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..config.reading import read_config
from ..errors import UserError
from .arguments import find_checkpoint

if TYPE_CHECKING:
    from ..apis import Heads

_FORMS = 'NAME=CONFIG:CHECKPOINT or NAME=WORK_FOLDER'
_HEAD = re.compile(r'([\w-]+)=(.+)')
# Paths and URLs contain colons too, so a config ends at its extension.
_FILES = re.compile(r'(.+?\.(?:py|json|ya?ml)):(.+)')


def heads_of(given: Sequence[str], device: str = 'cpu') -> 'Heads':
    """Load the heads given by ``--head``.

    Raises:
        UserError: If a head is malformed, a name is used twice, or the heads
            don't share an encoder.
    """
    files = {}
    for text in given:
        name, config, checkpoint = split_head(text)
        if name in files:
            raise UserError(f"--head '{name}' is given twice: use different "
                            'names')
        checkpoint = find_checkpoint(checkpoint, f'--head {name}')
        files[name] = read_config(config), checkpoint
    from ..apis import load_heads  # loads mmdet
    return load_heads(files, device)


def split_head(text: str) -> tuple[str, str, str]:
    """Split the value of ``--head`` into name, config and checkpoint.

    Raises:
        UserError: If it is malformed, or a work folder lacks a file.
    """
    match = _HEAD.fullmatch(text)
    if not match:
        raise UserError(
            f"--head '{text}' is not {_FORMS}, e.g. "
            'boxes=retinanet.py:epoch_12.pth; names consist of letters, '
            'digits, _ and -')
    name, run = match.groups()
    files = _FILES.fullmatch(run)
    if files:
        return name, *files.groups()
    configs = [*Path(run).glob('*.py')]
    if len(configs) != 1:
        raise UserError(f"--head '{text}' is not {_FORMS}: a work folder has "
                        'one config')
    return name, str(configs[0]), run
