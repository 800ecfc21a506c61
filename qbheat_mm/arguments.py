# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What an argument may be, said once beside the signature.

A :class:`Rule` is a test and the words for it. Rules serve constructors, as

    @checked(depth=POSITIVE_INT, drop_rate=SHARE)
    def __init__(self, depth: int, drop_rate: float = 0.) -> None:

and settings that other packages read, see ``launching/setting_values.py``.
"""
import functools
import inspect
import math
import numbers
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import UserError


@dataclass(frozen=True)
class Rule:
    """A test of a value.

    Attributes:
        allowed (str): What passes, as ``'a positive integer'``.
        holds (Callable): From a value to bool.
    """
    allowed: str
    holds: Callable[[Any], bool]

    def check(self, name: str, value: Any) -> None:
        """Test a value.

        Raises:
            UserError: Naming argument, value and what is allowed.
        """
        if not self.holds(value):
            raise UserError(f'{name}={shown(value)} must be {self.allowed}')


def shown(value: Any, width: int = 60) -> str:
    """A value as it is written, on one line and cut to ``width``."""
    text = ' '.join(repr(value).split())
    return text if len(text) <= width else f'{text[:width - 3]}...'


def is_int(value: Any) -> bool:
    """Whether a value is a whole number; ``True`` is none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether a value is a finite real number; ``True`` is none."""
    return (isinstance(value, numbers.Real) and not isinstance(value, bool)
            and math.isfinite(value))


def is_list(value: Any) -> bool:
    """Whether a value is a list, a tuple or alike, and no text."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def integer(low: int, allowed: str = '') -> Rule:
    """A whole number, ``low`` or more."""
    return Rule(allowed or f'an integer, {low} or more',
                lambda value: is_int(value) and value >= low)


def optional(rule: Rule) -> Rule:
    """None, or what ``rule`` allows."""
    return Rule(f'{rule.allowed}, or None',
                lambda value: value is None or rule.holds(value))


def several(rule: Rule, length: int | None = None) -> Rule:
    """A list or tuple of ``length`` (or of one at least) such values."""
    count = 'a list of one at least' if length is None else f'{length} values'
    return Rule(
        f'{count}, each {rule.allowed}',
        lambda value: is_list(value) and len(value) == (length or len(value))
        and len(value) > 0 and all(map(rule.holds, value)))


def either(*rules: Rule) -> Rule:
    """What one of the rules allows."""
    return Rule(' or '.join(rule.allowed for rule in rules),
                lambda value: any(rule.holds(value) for rule in rules))


def one_of(*values: Any) -> Rule:
    """One of a few values."""
    return Rule(f'one of {", ".join(map(repr, values))}',
                lambda value: any(
                    type(value) is type(known) and value == known
                    for known in values))


POSITIVE_INT = integer(1, 'a positive integer')
NATURAL = integer(0, 'an integer, 0 or more')
INT = Rule('an integer', is_int)
NUMBER = Rule('a finite number', is_number)
POSITIVE = Rule('a positive number', lambda v: is_number(v) and v > 0)
NOT_NEGATIVE = Rule('a number, 0 or more', lambda v: is_number(v) and v >= 0)
SHARE = Rule('a number from 0 to 1', lambda v: is_number(v) and 0 <= v <= 1)
RATE = Rule('a number from 0 to less than 1',
            lambda v: is_number(v) and 0 <= v < 1)
BOOL = Rule('True or False', lambda v: isinstance(v, bool))
TEXT = Rule('text', lambda v: isinstance(v, str))
PATH = Rule('a path that is not empty', lambda v: isinstance(
    v, str | os.PathLike) and str(v) != '')
MAPPING = Rule('a dict', lambda v: hasattr(v, 'keys'))
#: What would be taken letter by letter if it were iterated over.
TEXTS = Rule('a list of texts', lambda v: is_list(v) and all(
    map(TEXT.holds, v)))
TEXT_OR_TEXTS = Rule('a text that is not empty or a list of texts', lambda v: (
    isinstance(v, str) and v != '') or TEXTS.holds(v))


def as_texts(value: str | Sequence[str]) -> tuple[str, ...]:
    """What :data:`TEXT_OR_TEXTS` allows, as a tuple."""
    return (value, ) if isinstance(value, str) else tuple(value)


def multiple(name: str, value: int, of: str, unit: int) -> None:
    """Check that one argument is a multiple of another.

    Raises:
        UserError: Naming both.
    """
    if value % unit:
        raise UserError(f'{name}={value} must be a multiple of {of}={unit}')


def checked(**rules: Rule) -> Callable:
    """Let a constructor check its arguments before it uses them.

    Args:
        rules (Rule): By the names of the arguments.

    Returns:
        Callable: A decorator of ``__init__``. What it makes raises
        :class:`UserError`, with the class before the argument.
    """

    def decorate(init: Callable) -> Callable:
        signature = inspect.signature(init)

        @functools.wraps(init)
        def checked_init(self, *args, **kwargs) -> None:
            # A call that does not fit the signature fails in `init` itself.
            try:
                given = signature.bind(self, *args, **kwargs)
            except TypeError:
                return init(self, *args, **kwargs)
            given.apply_defaults()
            for name, rule in rules.items():
                rule.check(f'{type(self).__name__}: {name}',
                           given.arguments[name])
            return init(self, *args, **kwargs)

        return checked_init

    return decorate
