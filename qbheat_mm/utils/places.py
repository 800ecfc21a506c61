# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Where data are: on this machine's disks, or where a backend knows."""
from collections.abc import Mapping
from typing import Any

from ..errors import UserError


def is_local(path: str, backend_args: Mapping | None = None) -> bool:
    """Whether mmengine would read a path as a file of this machine.

    Args:
        path (str): A path or an address, as ``s3://bucket/folder``.
        backend_args (Mapping, optional): Which backend reads it, and how.
            Backends other than the local one may map paths elsewhere.
    """
    backend = (backend_args or {}).get('backend', 'local')
    return '://' not in path and backend == 'local'


def folders_of(data_prefix: Any) -> Mapping[str, str]:
    """``data_prefix`` of a data set of mmdet, which is no text.

    Raises:
        UserError: If it is one, as data sets of mmpretrain have it.
    """
    if data_prefix is None or isinstance(data_prefix, Mapping):
        return data_prefix or {}
    raise UserError(f'data_prefix={data_prefix!r}: detection has folders by '
                    f'their use, set data_prefix=dict(img={data_prefix!r})')
