# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A function of many items, in several processes."""
import contextlib
import functools
import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from multiprocessing.synchronize import Semaphore
from typing import Any

from .errors import UserError

_pickled: bytes = b''


@contextlib.contextmanager
def process_pool(processes: int, preload: Sequence[str] = (),
                 pickled: bytes = b'') -> Iterator[ProcessPoolExecutor]:
    """Processes that take work, until the end of a ``with`` block.

    They are not forked from this one: threads of torch or OpenCV would be
    missing in the copies, which would wait for them.

    Args:
        processes (int): All are there before the first has work.
        preload (Sequence[str]): Modules that all processes need.
        pickled (bytes): Is sent to each process once.

    Yields:
        ProcessPoolExecutor: Its work raises ``BrokenProcessPool`` where a
        process was killed.
    """
    context = get_context('forkserver')
    context.set_forkserver_preload([__name__, *preload])
    gate = context.Semaphore(0)
    pool = ProcessPoolExecutor(processes, context, _begin, (gate, pickled))
    try:
        # The executor begins a process with each piece of work that none is
        # free for. Should one be killed while another is begun, it may wait
        # for that for ever: so all are begun before any is free.
        try:
            for _ in range(processes):
                pool.submit(int)
        finally:
            for _ in range(processes):
                gate.release()
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def map_in_processes(function: Callable[[Any], Any], items: Sequence,
                     processes: int, preload: Sequence[str] = (),
                     chunk: int = 16) -> Iterator:
    """``map`` in processes, in the order of the items.

    Args:
        function (Callable): Is sent to each process once, so that it may
            hold much, and must be one that can be pickled.
        items (Sequence): What it is called with.
        processes (int): 1 to call it in this one. No more are begun than
            have work.
        preload (Sequence[str]): Modules that all processes need.
        chunk (int): Items that a process gets at a time. Defaults to 16.

    Yields:
        What the function returns. Its errors are raised.

    Raises:
        UserError: A process was killed.
    """
    if processes == 1 or len(items) <= chunk:
        yield from map(function, items)
        return
    try:
        with process_pool(min(processes, -(-len(items) // chunk)), preload,
                          pickle.dumps(function)) as pool:
            yield from pool.map(_call, items, chunksize=chunk)
    except BrokenProcessPool as error:
        raise UserError('one of several processes was killed, by want of '
                        'memory perhaps: close other programs and run '
                        'again') from error


def _begin(gate: Semaphore, pickled: bytes) -> None:
    global _pickled
    _pickled = pickled
    gate.acquire()


def _call(item: Any) -> Any:
    return _function()(item)


@functools.cache
def _function() -> Callable:
    # Not where the process begins: an error there says nothing of itself.
    return pickle.loads(_pickled)
