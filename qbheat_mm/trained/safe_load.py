# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read checkpoint files without executing anything in them.

Importing this module tells torch which objects mmengine's checkpoints contain
besides tensors.
"""
import hashlib
import os
import re
import zipfile
from pickle import UnpicklingError
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import torch
from mmengine.logging import HistoryBuffer

from ..errors import MissingFileError, UserError


def safe_load(path: str | os.PathLike, map_location: Any = 'cpu') -> dict:
    """Read a file with ``weights_only=True``, see :meth:`Checkpoint.read`."""
    path = os.path.expanduser(os.fspath(path))
    is_url = path.startswith(('http://', 'https://'))
    file = _download(path) if is_url else path
    if not os.path.exists(file):
        raise MissingFileError(f"checkpoint '{path}' does not exist (looked "
                               f"in '{os.getcwd()}')")
    if not os.path.isfile(file):  # reading a pipe would block
        raise UserError(f"checkpoint '{path}' is not a file")
    try:
        if file.endswith('.safetensors'):
            content = _read_safetensors(file)
        else:
            _verify_checksums(file)
            # The maintained fork removes them whenever it loads a file.
            torch.serialization.add_safe_globals(_SAFE_GLOBALS)
            content = torch.load(
                file, map_location=map_location, weights_only=True)
    except (torch.cuda.OutOfMemoryError, ImportError):
        raise
    # A damaged file can break the unpickler anywhere.
    except Exception as error:
        raise UserError(_explain(path, error)) from error
    if not isinstance(content, dict):
        raise UserError(f"checkpoint '{path}' holds no state_dict")
    return content


def _download(url: str) -> str:
    """Download a file once, to torch's folder of checkpoints.

    Its name starts with a hash of the URL, since many URLs end alike.
    """
    name = os.path.basename(urlsplit(url).path)
    digest = hashlib.sha256(url.encode()).hexdigest()[:16]
    folder = os.path.join(torch.hub.get_dir(), 'checkpoints')
    file = os.path.join(folder, f'{digest}-{name}')
    if not os.path.exists(file):
        os.makedirs(folder, exist_ok=True)
        try:
            torch.hub.download_url_to_file(url, file)
        except (OSError, ValueError) as error:
            raise UserError(f"checkpoint '{url}' cannot be downloaded "
                            f'({type(error).__name__}: {error})') from error
    return file


def _read_safetensors(path: str) -> dict:
    from safetensors import safe_open
    with safe_open(path, framework='pt', device='cpu') as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return dict(state_dict=tensors, meta=file.metadata() or {})


def _verify_checksums(path: str) -> None:
    """Verify the checksums of a zip file, which torch ignores."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        if damaged:
            raise ValueError(f'wrong checksum of {damaged}')


def _explain(path: str, error: Exception) -> str:
    refused = re.search(r'GLOBAL (getattr\(.*?\)|\S+)', str(error))
    if refused:
        return (f"checkpoint '{path}' is refused: it contains "
                f'{refused[1]}, which could run code; save only its '
                'state_dict')
    reason = str(error).strip().split('\n')[0][:150]
    return (f"checkpoint '{path}' is damaged or not a checkpoint "
            f'({type(error).__name__}: {reason})')


def _history_buffer_method(owner: type, name: str) -> Any:
    """Stand in for ``getattr`` in a checkpoint.

    HistoryBuffer pickles its statistics as ``getattr(HistoryBuffer, 'mean')``;
    nothing else is allowed.
    """
    method = vars(HistoryBuffer).get(name) if owner is HistoryBuffer else None
    if not callable(method) or name.startswith('_'):
        raise UnpicklingError(
            f'Unsupported global: GLOBAL getattr({owner!r}, {name!r})')
    return method


def _numpy_globals() -> list:
    """How numpy pickles numbers and arrays of them."""
    types = {type(np.dtype(code)) for code in '?bBhHiIlLqQefd'}
    scalar, _ = np.float64().__reduce__()
    array, *_ = np.zeros(1).__reduce__()
    functions = []
    # numpy 2 renamed the module; files keep the name of their writer's.
    for module in ('numpy.core.multiarray', 'numpy._core.multiarray'):
        functions.append((scalar, f'{module}.scalar'))
        functions.append((array, f'{module}._reconstruct'))
    return [np.ndarray, np.dtype, *types, *functions]


_SAFE_GLOBALS = [
    HistoryBuffer, (_history_buffer_method, 'builtins.getattr'),
    *_numpy_globals()]
torch.serialization.add_safe_globals(_SAFE_GLOBALS)
