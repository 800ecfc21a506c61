# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Show the names of files and classes that are not UTF-8."""


def printable(name: str) -> str:
    r"""Escape what cannot be printed, drawn or written as UTF-8.

    Python keeps the bytes of such names (e.g. of archives from Chinese
    Windows) as lone surrogates. They are shown as ``\udcd5``, as by ``repr``;
    files for other programs to read back have the names as they are.
    """
    return name.encode('utf-8', 'backslashreplace').decode()
