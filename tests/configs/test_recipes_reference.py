# Copyright (c) QB-Heat MM authors. All rights reserved.
"""No value of any configuration changes without being looked at.

The tables of the other files of this name say what a value has to be, and
why. This is the net below them: it notices also what no source names.
"""
import pytest

from .recipe import ALL, differences, resolved
from .reference import read

REFERENCE = read()


@pytest.mark.parametrize('name', ALL)
def test_values_are_as_last_looked_at(name):
    assert name in REFERENCE, (
        f'{name} is new: `make recipes` writes down its values')
    before, now = REFERENCE[name], resolved(name)
    changed = differences(name, before) + [
        f'{name}: {path} = {now[path]!r} is new' for path in now
        if path not in before]
    assert not changed, '\n'.join(
        [*changed, 'If this is meant: `make recipes`, then look at what it '
         'has changed under tests/data/recipes.'])


def test_no_reference_is_left_behind():
    assert set(REFERENCE) == set(ALL)
