# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A function of many items, in several processes."""
import functools
import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from ..errors import UserError

_pickled: bytes = b''


def map_in_processes(function: Callable[[Any], Any], items: Sequence,
                     processes: int, preload: Sequence[str] = (),
                     chunk: int = 16) -> Iterator:
    """``map`` in processes, in the order of the items.

    Processes are not forked from this one: threads of torch or OpenCV would
    be missing in the copies, which would wait for them.

    Args:
        function (Callable): Is sent to each process once, so that it may
            hold much, and must be one that can be pickled.
        items (Sequence): What it is called with.
        processes (int): 1 to call it in this one.
        preload (Sequence[str]): Modules that all processes need.
        chunk (int): Items that a process gets at a time. Defaults to 16.

    Yields:
        What the function returns. Its errors are raised.

    Raises:
        UserError: A process was killed.
    """
    if processes == 1:
        yield from map(function, items)
        return
    context = get_context('forkserver')
    context.set_forkserver_preload([__name__, *preload])
    pool = ProcessPoolExecutor(
        processes, context, _begin, (pickle.dumps(function), ))
    try:
        yield from pool.map(_call, items, chunksize=chunk)
    except BrokenProcessPool as error:
        raise UserError('one of several processes was killed, by want of '
                        'memory perhaps: close other programs and run '
                        'again') from error
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(pickled: bytes) -> None:
    global _pickled
    _pickled = pickled


def _call(item: Any) -> Any:
    return _function()(item)


@functools.cache
def _function() -> Callable:
    # Not where the process begins: an error there says nothing of itself.
    return pickle.loads(_pickled)
