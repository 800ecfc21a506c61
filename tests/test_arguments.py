# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Rules of arguments, and constructors that keep them."""
import inspect
import math

import numpy as np
import pytest

from qbheat_mm import arguments as rules
from qbheat_mm.arguments import checked, either, multiple, optional, several
from qbheat_mm.errors import UserError


@pytest.mark.parametrize('rule, good, wrong', [
    (rules.POSITIVE_INT, [1, np.int64(3)], [0, -1, 1., '1', True, None]),
    (rules.NATURAL, [0, 2], [-1, .5, False]),
    (rules.POSITIVE, [1, 1e-9], [0, -1, math.inf, math.nan, '1', True]),
    (rules.NOT_NEGATIVE, [0, .5], [-1e-9, None]),
    (rules.SHARE, [0, .5, 1], [1.1, -.1]),
    (rules.RATE, [0, .9], [1, -1]),
    (rules.BOOL, [True, False], [0, 1, 'True', None]),
    (optional(rules.TEXT), [None, 'a'], [1]),
    (several(rules.NATURAL), [[0], (1, 2)], [[], 'ab', [1, -1], 1, {}]),
    (several(rules.NATURAL, 2), [[0, 1]], [[0], [0, 1, 2]]),
    (either(rules.NATURAL, rules.TEXT), [0, 'a'], [-1, None]),
    (rules.one_of('a', 1), ['a', 1], ['b', True, 1.]),
    (rules.TEXTS, [[], ['a'], ('', )], ['a', '', None, [1], {'a': 1}]),
    (rules.TEXT_OR_TEXTS, ['a', ['a', 'b'], ('', ), []],
     ['', None, [1], 3, {'a': 1}]),
])
def test_what_a_rule_allows(rule, good, wrong):
    assert all(map(rule.holds, good))
    assert not any(map(rule.holds, wrong))


def test_a_text_is_one_and_no_list_of_letters():
    assert rules.as_texts('head.') == ('head.', )
    assert rules.as_texts(['a', 'b']) == ('a', 'b')
    assert rules.as_texts(()) == ()


class Part:

    @checked(depth=rules.POSITIVE_INT, rate=rules.RATE)
    def __init__(self, depth, rate=0., **kwargs):
        self.depth, self.rest = depth, kwargs


def test_a_constructor_names_class_argument_value_and_what_is_allowed():
    with pytest.raises(UserError) as error:
        Part(-1)
    assert str(error.value) == 'Part: depth=-1 must be a positive integer'
    with pytest.raises(UserError, match='rate=2'):
        Part(1, rate=2)


def test_a_subclass_is_named_by_its_own_name():

    class Child(Part):
        pass

    with pytest.raises(UserError, match='Child: depth'):
        Child(depth='2')


def test_a_constructor_keeps_its_signature_and_its_own_errors():
    assert list(inspect.signature(Part).parameters) == [
        'depth', 'rate', 'kwargs']
    assert Part(1, other=2).rest == dict(other=2)
    with pytest.raises(TypeError, match='depth'):
        Part()


def test_a_long_value_is_cut_and_stays_on_one_line():
    with pytest.raises(UserError) as error:
        Part('a\nb' * 100)
    assert '\n' not in str(error.value) and len(str(error.value)) < 150


def test_multiples():
    multiple('width', 8, 'heads', 4)
    with pytest.raises(UserError, match='width=9 must be a multiple of hea'):
        multiple('width', 9, 'heads', 4)
