# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Errors that users can fix, and names as messages show them."""


class UserError(ValueError):
    """A wrong setting, file or input.

    The message is one sentence that names the value, its origin and the fix.
    Command-line tools print it without a traceback.
    """


class MissingFileError(UserError, FileNotFoundError):
    """A file does not exist; the message names it."""


class ImageError(UserError):
    """An image file cannot be used; the message names it."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f'image {str(path)!r} {one_line(problem)}')


def one_line(message: object) -> str:
    """Return a message, or that of an error, without line breaks."""
    return ' '.join(str(message).split())


def printable(name: str) -> str:
    r"""Escape what cannot be printed, drawn or written as UTF-8.

    Python keeps the bytes of such names (e.g. of archives from Chinese
    Windows) as lone surrogates. They are shown as ``\udcd5``, as by ``repr``;
    files for other programs to read back have the names as they are.
    """
    return name.encode('utf-8', 'backslashreplace').decode()
