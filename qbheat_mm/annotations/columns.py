# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Columns of a list of JSON objects, whatever the objects hold."""
import gc
import math
import reprlib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, repeat
from operator import attrgetter

import numpy as np


class Absent:
    """Stands for a key that is not there; equal to nothing else."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return 'absent'


ABSENT = Absent()

_SHORT = reprlib.Repr()
_SHORT.maxlist = _SHORT.maxdict = 4
_SHORT.maxstring = _SHORT.maxother = 60


def written(value) -> str:
    """A value for a message: one line, not long."""
    return _SHORT.repr(value)


def column(records: Sequence[dict], key: str) -> list:
    """The values of one key, :data:`ABSENT` where it is not there."""
    return [record.get(key, ABSENT) for record in records]


def columns(records: Sequence[dict], *keys: str) -> list[Sequence]:
    """The values of several keys, in one pass, as :func:`column`."""
    if not records:
        return [[] for _ in keys]
    return list(zip(*(
        [get(key, ABSENT) for key in keys]
        for get in map(attrgetter('get'), records))))


@contextmanager
def no_collection() -> Iterator[None]:
    """Spare Python the search for cycles in millions of objects of JSON."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def is_number(value) -> bool:
    """Whether a value of JSON is a finite number; truth values are none."""
    if type(value) is int:
        return abs(value) < 1e300
    return type(value) is float and math.isfinite(value)


def is_id(value) -> bool:
    """Whether a value may be an id: a whole number, or text."""
    return (type(value) in (int, str)
            or type(value) is float and value.is_integer())


def rows_of(values: Sequence, rows: dict) -> np.ndarray:
    """The row of each id.

    Args:
        values (Sequence): (N,), of any type.
        rows (dict): Of the known ids.

    Returns:
        np.ndarray: (N,), int64, -1 for what is no known id.
    """
    try:
        found = np.fromiter(map(rows.get, values, repeat(-1)), np.int64,
                            len(values))
    except TypeError:  # a list or an object
        values = [value if is_id(value) else ABSENT for value in values]
        return rows_of(values, rows)
    # Python takes true for 1.
    for truth in {rows.get(False, -1), rows.get(True, -1)} - {-1}:
        for row in np.flatnonzero(found == truth):
            if type(values[row]) is bool:
                found[row] = -1
    return found


def numbers(values: Sequence) -> np.ndarray:
    """Numbers as an array.

    Args:
        values (Sequence): (N,), of any type.

    Returns:
        np.ndarray: (N,), float64, NaN for what is no finite number.
    """
    try:
        found = np.array(array('d', values))
    except (TypeError, OverflowError):
        found = np.array([float(value) if is_number(value) else np.nan
                          for value in values], dtype=np.float64)
    # Python takes true for 1.
    for row in np.flatnonzero((found == 0) | (found == 1)):
        if type(values[row]) is bool:
            found[row] = np.nan
    found[~np.isfinite(found)] = np.nan
    return found


def quadruples(values: Sequence) -> np.ndarray:
    """Lists of four numbers as an array.

    Args:
        values (Sequence): (N,), of any type.

    Returns:
        np.ndarray: (N, 4), float64, NaN in every row that is something else
        or holds what is no finite number.
    """
    try:
        even = set(map(len, values)) <= {4}
        found = even and numbers(list(chain.from_iterable(values)))
    except TypeError:  # something without a length
        even = False
    if not even or set(map(type, values)) - {list}:
        nothing = [math.nan] * 4
        values = [value if type(value) is list and len(value) == 4
                  else nothing for value in values]
        found = numbers(list(chain.from_iterable(values)))
    found = found.reshape(-1, 4)
    found[np.isnan(found).any(axis=1)] = np.nan
    return found
