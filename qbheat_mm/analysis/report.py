# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The machine-readable result of an analysis."""
import dataclasses
import math
from dataclasses import dataclass, field

from ..arguments import MAPPING, TEXT, TEXTS, Rule, is_list, optional
from ..errors import UserError
from ..version import __version__

_LISTS = Rule('a list of lists', lambda value: is_list(value) and all(
    map(is_list, value)))
_PARTS = dict(
    analysis=TEXT, title=TEXT, caption=TEXT, pictures=TEXTS, source=MAPPING,
    tables=Rule('a list of dicts', lambda value: is_list(value) and all(
        map(MAPPING.holds, value))))
_TABLE = dict(
    title=TEXT, rows=_LISTS, columns=Rule('a list', is_list))


@dataclass
class Table:
    """Numbers for people.

    Attributes:
        title (str): What the rows are.
        columns (list[str]): Names with units.
        rows (list[list]): Strings and numbers.
    """
    title: str
    columns: list[str]
    rows: list[list] = field(default_factory=list)


@dataclass
class Report:
    """What one analysis found, and how.

    Attributes:
        analysis (str): Its name, as ``'spectrum'``.
        title (str): A headline.
        caption (str): What the pictures show, with units, in sentences.
        tables (list[Table]): Numbers for people.
        numbers (dict): All numbers, by name.
        pictures (list[str]): File names beside the report.
        source (dict): Command, configuration, checkpoints, images.
    """
    analysis: str
    title: str
    caption: str
    tables: list[Table] = field(default_factory=list)
    numbers: dict = field(default_factory=dict)
    pictures: list[str] = field(default_factory=list)
    source: dict = field(default_factory=dict)

    def as_json(self) -> dict:
        """Plain content; what is not finite becomes a string, which JSON
        could not hold otherwise."""
        content = dict(qbheat_mm=__version__, **dataclasses.asdict(self))
        return _plain(content)


def is_report(content) -> bool:
    """Whether the content of a JSON file has all parts of a report."""
    return isinstance(content, dict) and set(content) >= set(_PARTS)


def require_report(content: dict, file: str) -> None:
    """Check what a report of others holds.

    Args:
        content (dict): See :func:`is_report`.
        file (str): Where it comes from, for the message.

    Raises:
        UserError: Naming the part that is of another type.
    """
    values = [(name, content[name], rule) for name, rule in _PARTS.items()]
    values.append(('numbers', content.get('numbers', {}), MAPPING))
    if MAPPING.holds(content['source']):
        values.append(('source.command', content['source'].get('command'),
                       optional(TEXT)))
    if _PARTS['tables'].holds(content['tables']):
        values += [(f'tables.{i}.{name}', table.get(name), rule)
                   for i, table in enumerate(content['tables'])
                   for name, rule in _TABLE.items()]
    for name, value, rule in values:
        try:
            rule.check(name, value)
        except UserError as error:
            raise UserError(f"report '{file}': {error}") from error


def _plain(value):
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
