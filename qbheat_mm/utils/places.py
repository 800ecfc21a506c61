# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Where data are: on this machine's disks, or where a backend knows."""
from collections.abc import Mapping


def is_local(path: str, backend_args: Mapping | None = None) -> bool:
    """Whether mmengine would read a path as a file of this machine.

    Args:
        path (str): A path or an address, as ``s3://bucket/folder``.
        backend_args (Mapping, optional): Which backend reads it, and how.
            Backends other than the local one may map paths elsewhere.
    """
    backend = (backend_args or {}).get('backend', 'local')
    return '://' not in path and backend == 'local'
