# Copyright (c) QB-Heat MM authors. All rights reserved.
"""An annotation file's content, or one line that says what the file is."""
import json
import os.path as osp

from ..errors import UserError
from .columns import no_collection

# What files of other kinds begin with.
_OTHER_KINDS = (
    (b'\x1f\x8b', 'is compressed (gzip)', 'unpack it with gunzip'),
    (b'BZh', 'is compressed (bzip2)', 'unpack it with bunzip2'),
    (b'\xfd7zXZ', 'is compressed (xz)', 'unpack it with unxz'),
    (b'\x28\xb5\x2f\xfd', 'is compressed (zstd)', 'unpack it with unzstd'),
    (b'PK\x03\x04', 'is an archive (zip)', 'unpack it and give the .json'),
    (b'\xff\xd8\xff', 'is a picture (JPEG)', 'give the .json'),
    (b'\x89PNG', 'is a picture (PNG)', 'give the .json'),
    (b'<', 'is HTML or XML, not JSON', 'download it again if it is a page '
     'that tells of an error, or convert annotations of VOC to COCO'),
)


def read_annotations(path: str, name: str | None = None) -> dict:
    """Read an annotation file in any encoding of JSON, with or without BOM.

    Args:
        path (str): A local file.
        name (str, optional): How messages call it, if it is a copy.

    Returns:
        dict: What the file holds.

    Raises:
        UserError: If it cannot be read, is no JSON or holds no object.
    """
    name = name or path
    content = _read(path, name)
    for start, what, way_out in _OTHER_KINDS:
        if content.lstrip()[:8].startswith(start):
            raise _unusable(name, what, way_out)
    if not content.strip(b' \t\r\n\0'):
        raise _unusable(name, 'is empty', 'copy or write it again')
    data = _parse(content, name)
    if not isinstance(data, dict):
        raise _unusable(
            name, f'holds {kind_of(data)}, not an object with images, '
            'annotations and categories', 'give the file of the annotations '
            'in COCO\'s format, not of results')
    return data


def kind_of(value) -> str:
    """What JSON calls the type of a value, with its article."""
    if value is None:
        return 'null'
    for types, kind in ((bool, 'a truth value'), (int | float, 'a number'),
                        (str, 'text'), (dict, 'an object')):
        if isinstance(value, types):
            return kind
    return 'a list'


def _read(path: str, name: str) -> bytes:
    """The bytes of a regular file; a pipe would be waited for."""
    if osp.isdir(path):
        raise _unusable(name, 'is a folder', 'give the .json inside')
    if osp.exists(path) and not osp.isfile(path):
        raise _unusable(name, 'is a pipe or a device, not a file',
                        'write its content to a file and give that')
    try:
        with open(path, 'rb') as file:
            return file.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, 'strerror', None) or error
        raise _unusable(name, f'cannot be read ({reason})',
                        'give a file that can be read') from error


def _parse(content: bytes, name: str):
    """Parse JSON; every error tells the place."""
    try:
        with no_collection():
            return json.loads(content)
    except json.JSONDecodeError as error:
        place = f'line {error.lineno}, column {error.colno}'
        rest = error.doc[error.pos:].strip(' \t\r\n\0')
        if error.pos and (not rest or 'Unterminated' in error.msg):
            raise _unusable(name, f'is cut: it ends in the middle ({place})',
                            'copy it again') from error
        raise _unusable(name, f'is no JSON ({error.msg}: {place})',
                        'mend that place, or export it again') from error
    except UnicodeDecodeError as error:
        line = content.count(b'\n', 0, error.start) + 1
        column = error.start - content.rfind(b'\n', 0, error.start)
        raise _unusable(
            name, f'is not text in {error.encoding.upper()} (line {line}, '
            f'column {column})', 'save it in UTF-8') from error
    except RecursionError as error:
        raise _unusable(name, 'is nested too deeply',
                        'export it again') from error
    except ValueError as error:  # numbers of thousands of digits
        reason = str(error).split(';')[0]
        raise _unusable(name, f'cannot be read ({reason})',
                        'export it again') from error


def _unusable(name: str, what: str, way_out: str) -> UserError:
    return UserError(f"annotation file '{name}' {what}: {way_out}")
