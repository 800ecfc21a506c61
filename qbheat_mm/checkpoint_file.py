# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Is a file a checkpoint, and is it whole? In one line if it is not."""
import os
import re
import stat
import zipfile
from typing import Any

from .errors import UserError

_AGAIN = 'copy or download it again'
# How files of other kinds begin, and the way from them to a checkpoint.
_BEGINNINGS = (
    (rb'\x93NUMPY', 'an array of numpy', 'save a state_dict with torch.save'),
    (rb'\x89HDF', 'an HDF5 file', 'export the weights of PyTorch'),
    (rb'\x89PNG|\xff\xd8\xff|GIF8|RIFF....WEBP|BM', 'a picture',
     'give the checkpoint'),
    (rb'\x1f\x8b|BZh|\xfd7zXZ|\x28\xb5\x2f\xfd', 'a compressed file',
     'unpack it first'),
    (rb'.{257}ustar', 'a tar archive', 'unpack it first'),
    (rb'.{8}\{', 'a damaged file of safetensors', _AGAIN),
    (rb'version https://git-lfs', 'a pointer of git-lfs to the checkpoint',
     'get the file with `git lfs pull`'),
    (rb'[\x09-\x0d\x20-\x7e]{1,300}\Z', 'a text',
     'download the checkpoint again'),
)

def require_ordinary_file(path: str) -> None:
    """Raise unless a path leads to a file that can be read at once.

    Raises:
        FileNotFoundError: If nothing is there.
        UserError: If it is a folder, a pipe or a device.
    """
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        if os.path.islink(path):
            raise FileNotFoundError(
                f"no checkpoint '{path}': it is a link to "
                f"'{os.readlink(path)}', which does not exist") from None
        raise FileNotFoundError(
            f"no checkpoint '{path}': the file does not exist") from None
    if not stat.S_ISREG(mode):
        kind = 'a folder' if stat.S_ISDIR(mode) else 'no ordinary file'
        raise UserError(f"checkpoint '{path}' is {kind}: give the file with "
                        'the weights, as epoch_100.pth')


def require_intact(path: str) -> None:
    """Raise if the bytes of a checkpoint are not those that were written.

    The files of torch are zip archives with a check sum for each tensor,
    which torch itself does not verify. Older files have none.

    Raises:
        UserError: Naming the part that has changed.
    """
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        if sum(part.file_size for part in parts) > 10 * os.path.getsize(path):
            raise zipfile.BadZipFile('implausible sizes')
        for part in parts:
            # 0 where torch was told to write no check sums.
            if part.CRC and not part.is_dir():
                _read_through(archive, part)


def _read_through(archive: zipfile.ZipFile, part: zipfile.ZipInfo) -> None:
    """Read a part of an archive, which compares its check sum."""
    with archive.open(part) as file:
        while file.read(1 << 20):
            pass


def require_named_values(path: str, content: Any) -> dict:
    """Raise unless a file held a dictionary whose weights have names.

    Returns:
        dict: ``content``.

    Raises:
        UserError: If it holds something else.
    """
    weights = content
    if isinstance(content, dict):
        weights = content.get('state_dict', content)
    if not isinstance(weights, dict):
        raise UserError(
            f"checkpoint '{path}' holds no tensors at all, but a "
            f'{type(weights).__name__}: give a file with a state_dict')
    unnamed = [key for key in weights if not isinstance(key, str)]
    if unnamed:
        raise UserError(
            f"checkpoint '{path}' holds no weights of a network: it has "
            f'{unnamed[0]!r} where the name of a tensor belongs; give a file '
            'with a state_dict')
    return content


def explain_unreadable(path: str, error: Exception) -> str:
    """One line for a file that could not be loaded.

    Args:
        path (str): File or URL.
        error (Exception): What loading it raised.
    """
    if isinstance(error, OSError):
        reason = error.strerror or getattr(error, 'reason', None) or error
        return (f"checkpoint '{path}' cannot be read: {_first_line(reason)}; "
                'check path, rights and network')
    kind = _foreign_kind(path)
    if kind:
        return (f"checkpoint '{path}' cannot be read: it is {kind[0]} and no "
                f'checkpoint of torch; {kind[1]}')
    return (f"checkpoint '{path}' cannot be read: the file is cut, damaged "
            f'or no torch checkpoint ({_first_line(error)}); {_AGAIN}')


def _foreign_kind(path: str) -> tuple[str, str] | None:
    """What a file is, if it is of another known kind, and the way out."""
    if not os.path.isfile(path):
        return None
    if zipfile.is_zipfile(path):
        return _kind_of_archive(path)
    with open(path, 'rb') as file:
        start = file.read(300)
    if not start:
        return 'empty', _AGAIN
    for beginning, kind, way_out in _BEGINNINGS:
        if re.match(beginning, start, re.DOTALL):
            return kind, way_out
    return None


def _kind_of_archive(path: str) -> tuple[str, str] | None:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, OSError):
        return None
    if any(name.endswith('constants.pkl') for name in names):
        return 'a TorchScript archive', (
            'convert it: torch.save(torch.jit.load(FILE).state_dict(), '
            'NEW_FILE)')
    if names and all(name.endswith('.npy') for name in names):
        return 'a collection of numpy arrays', (
            'save a state_dict with torch.save')
    if not any(name.endswith('data.pkl') for name in names):
        return 'a zip archive', 'unpack it and give the file in it'
    return None


def _first_line(error: Any) -> str:
    text = str(error).strip().split('\n')[0][:150]
    name = f'{type(error).__name__}: ' if isinstance(error, Exception) else ''
    return f'{name}{text}'.strip(' :.')
