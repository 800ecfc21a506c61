# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Safe loading and resuming of mm checkpoints.

Since torch 2.6 ``torch.load`` refuses pickled objects other than tensors and
plain containers, and so refuses the checkpoints of mmengine, which hold a few
more. :func:`apply` allows exactly those. It also makes mmengine's loaders
safe where they are not: its loader of URLs asks torch for the unsafe
unpickler, and the maintained fork falls back to it for every file.
"""
import ast
import functools
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from mmengine.logging import HistoryBuffer
from mmengine.runner import checkpoint as mm_checkpoint
from mmengine.runner.checkpoint import CheckpointLoader

from .check_env import COMMON, fits
from .checkpoint_file import (
    explain_unreadable,
    require_intact,
    require_named_values,
    require_ordinary_file,
)
from .config_text import find_obstacle
from .errors import UserError
from .safetensors_file import is_safetensors, read_safetensors

try:
    from numpy._core import multiarray
except ImportError:  # numpy 1
    from numpy.core import multiarray

# Torch reads these two on every load; they are its documented switches.
FORCE_SAFE = 'TORCH_FORCE_WEIGHTS_ONLY_LOAD'
FORCE_UNSAFE = 'TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD'

# The beginning of a text that raises our error when it is run.
_RAISE = (f"raise __import__('{UserError.__module__}', fromlist=['x'])"
          '.UserError')


def apply() -> None:
    """Allow what mm checkpoints pickle and guard mmengine's loaders.

    Raises:
        ImportError: this torch is older than 2.6, the first whose safe
            unpickler can be told the names in mmengine's checkpoints.
    """
    oldest = COMMON['torch'][1]
    if not fits(torch.__version__, oldest, ''):
        raise ImportError(
            f'qbheat_mm needs torch {oldest} or newer, and this is torch '
            f'{torch.__version__}, which cannot load checkpoints of mmengine '
            'safely. The command `python -m qbheat_mm.check_env` says how to '
            'mend it.')
    torch.serialization.add_safe_globals(_safe_globals())
    for prefixes, loader in (
        ('', load_from_local),
        (('http://', 'https://'), mm_checkpoint.load_from_http),
        (('modelzoo://', 'torchvision://'),
         mm_checkpoint.load_from_torchvision),
        (('open-mmlab://', 'openmmlab://'),
         mm_checkpoint.load_from_openmmlab),
    ):
        CheckpointLoader.register_scheme(
            prefixes, loader=guard(loader), force=True)


def load_from_local(filename: str, map_location=None):
    """Load a local file, in place of mmengine's loader of the same name.

    That of the maintained fork allows every ``getattr`` for the time of the
    call, and then loads unsafely what is refused nevertheless.
    """
    filename = os.path.expanduser(filename)
    require_ordinary_file(filename)
    if is_safetensors(filename):
        return read_safetensors(filename)
    require_intact(filename)
    return torch.load(filename, map_location=map_location)


def guard(loader: Callable) -> Callable:
    """Make a checkpoint loader safe and its refusals readable.

    Args:
        loader (Callable): ``loader(filename, map_location)``.

    Returns:
        Callable: The same call; raises :class:`UserError` for whatever is
        not a whole checkpoint of named values or holds a foreign object,
        and :class:`FileNotFoundError` where there is no file. Text that the
        toolboxes would run is made harmless.
    """
    # `wraps` keeps the name, which mmengine prints when it loads.
    @functools.wraps(loader)
    def load(filename: str, map_location=None):
        try:
            with _force_safe_unpickler():
                checkpoint = loader(filename, map_location=map_location)
        except (FileNotFoundError, UserError, torch.cuda.OutOfMemoryError):
            raise
        # A file can break the unpickler anywhere.
        except Exception as error:
            raise UserError(_explain(filename, error)) from error
        return _without_code(filename, require_named_values(
            filename, checkpoint))

    return load


def _safe_globals() -> list[tuple[Callable, str]]:
    """What a checkpoint of mmengine pickles beyond tensors, with names.

    All are given as pairs, since the maintained fork adds some of the bare
    classes when it loads and takes them away afterwards.
    """
    numbers = (np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8,
               np.uint16, np.uint32, np.uint64, np.float16, np.float32,
               np.float64)
    dtypes = [type(np.dtype(number)) for number in numbers]
    pairs = [(HistoryBuffer, 'mmengine.logging.history_buffer.HistoryBuffer'),
             (_history_buffer_method, 'builtins.getattr'),
             (np.ndarray, 'numpy.ndarray'), (np.dtype, 'numpy.dtype')]
    pairs += [(dtype, f'{dtype.__module__}.{dtype.__qualname__}')
              for dtype in dtypes]
    # numpy 2 renamed the module; a file carries the name of its writer's.
    for module in ('numpy.core.multiarray', 'numpy._core.multiarray'):
        pairs += [(multiarray.scalar, f'{module}.scalar'),
                  (multiarray._reconstruct, f'{module}._reconstruct')]
    return pairs


def _history_buffer_method(owner: type, name: str) -> Callable:
    """Stand in for ``getattr`` while a checkpoint is unpickled.

    A HistoryBuffer pickles its statistics as ``getattr(HistoryBuffer,
    'mean')``; nothing else is given out.
    """
    method = vars(HistoryBuffer).get(name) if owner is HistoryBuffer else None
    if not callable(method) or name.startswith('_'):
        raise UnpicklingError(f'Unsupported global: GLOBAL getattr({owner!r}, '
                              f'{name!r})')
    return method


@contextmanager
def _force_safe_unpickler() -> Iterator[None]:
    """Let torch use the safe unpickler whatever the caller asks it for.

    A user who has set torch's opposite switch has decided otherwise.
    """
    before = os.environ.get(FORCE_SAFE)
    if os.environ.get(FORCE_UNSAFE) is None:
        os.environ[FORCE_SAFE] = '1'
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(FORCE_SAFE, None)
        else:
            os.environ[FORCE_SAFE] = before


def _explain(filename: str, error: Exception) -> str:
    """One line for a refused, damaged or foreign file."""
    refused = re.search(r'GLOBAL (getattr\(.*?\)|\S+)', str(error))
    if refused:
        return (f"checkpoint '{filename}' is refused: it holds the pickled "
                f'object {refused.group(1)}, which could run code; save its '
                'state_dict alone, or, only if you trust its author, set '
                f'{FORCE_UNSAFE}=1 for this command')
    return explain_unreadable(filename, error)


def _without_code(filename: str, checkpoint: dict) -> dict:
    """Make the texts harmless that the toolboxes would run.

    mmengine's inferencers run ``meta['cfg']`` or its copy in the message hub
    when they get no configuration; where it is not plain, they now get a
    text that raises one line. What it was is kept, to be read, as
    ``meta['refused_cfg']``. ``meta['config']``, which mmengine would run
    when it resumes and does not write, is dropped.
    """
    meta, hub = checkpoint.get('meta'), checkpoint.get('message_hub')
    hub = hub.get('runtime_info') if isinstance(hub, dict) else None
    for holder in (meta, hub):
        if not isinstance(holder, dict) or 'cfg' not in holder:
            continue
        text = holder['cfg']
        obstacle = find_obstacle(text)
        if obstacle is not None and not _is_raising(text):
            holder['cfg'] = _raising(
                f"the configuration inside checkpoint '{filename}' is not run"
                f': {obstacle}; give the configuration file as well')
            if holder is meta:
                holder['refused_cfg'] = text
    if isinstance(meta, dict):
        meta.pop('config', None)
    return checkpoint


def _raising(message: str) -> str:
    """A text that raises one line when it is run."""
    # mmengine replaces what stands in double braces.
    message = message.translate(str.maketrans('{}', '()'))
    return f'{_RAISE}({message!r})\n'


def _is_raising(text: Any) -> bool:
    """Whether a text is one of :func:`_raising`, all of it."""
    if not isinstance(text, str) or not text.startswith(_RAISE):
        return False
    try:
        message = ast.literal_eval(text.removeprefix(_RAISE))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return isinstance(message, str) and text == _raising(message)


# The loading path of the package itself: any scheme of mmengine, safe on
# every torch. It logs what it loads.
load_checkpoint = guard(CheckpointLoader.load_checkpoint)

apply()
