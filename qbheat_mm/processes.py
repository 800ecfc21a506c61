# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Work in several processes."""
import functools
import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from .errors import UserError

_pickled: bytes = b''


def process_pool(processes: int, preload: Sequence[str] = (),
                 pickled: bytes = b'') -> ProcessPoolExecutor:
    """A pool of processes that aren't forked from this one.

    Threads of torch and OpenCV don't survive a fork.

    Args:
        processes (int): Number of processes.
        preload (Sequence[str]): Modules that all of them import.
        pickled (bytes): Sent to each process once.
    """
    context = get_context('forkserver')
    context.set_forkserver_preload([__name__, *preload])
    return ProcessPoolExecutor(processes, context, _begin, (pickled, ))


def map_in_processes(function: Callable[[Any], Any], items: Sequence,
                     processes: int, preload: Sequence[str] = (),
                     chunk: int = 16) -> Iterator:
    """``map`` in several processes, in the order of the items.

    Args:
        function (Callable): Pickled and sent to each process once.
        items (Sequence): Its arguments.
        processes (int): 1 stays in this process.
        preload (Sequence[str]): Modules that the processes import.
        chunk (int): Items sent at a time. Defaults to 16.

    Yields:
        What the function returns.

    Raises:
        UserError: If a process is killed.
    """
    if processes == 1 or len(items) <= chunk:
        yield from map(function, items)
        return
    try:
        with process_pool(min(processes, -(-len(items) // chunk)), preload,
                          pickle.dumps(function)) as pool:
            yield from pool.map(_call, items, chunksize=chunk)
    except BrokenProcessPool as error:
        raise UserError('a worker process was killed, probably out of '
                        'memory') from error


def _begin(pickled: bytes) -> None:
    global _pickled
    _pickled = pickled


def _call(item: Any) -> Any:
    return _function()(item)


@functools.cache
def _function() -> Callable:
    return pickle.loads(_pickled)
