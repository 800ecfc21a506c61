# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The machine-readable result of an analysis."""
import dataclasses
import math
from dataclasses import dataclass, field

from ..version import __version__


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


def _plain(value):
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
