# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Tables of text, for terminals and in Markdown."""
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field


@dataclass
class Table:
    """A table of a report.

    Attributes:
        title (str): Headline.
        columns (list[str]): Names with units.
        rows (list[list]): Strings and numbers.
    """
    title: str
    columns: list[str]
    rows: list[list] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [self.title]
        for cells in pad([self.columns, *self.rows]):
            lines.append('  '.join(cells).rstrip())
        return '\n'.join(lines)


def pad(rows: Sequence[Sequence], right: Collection[int] = ()
        ) -> list[list[str]]:
    """Write cells as text, of one width in each column.

    Args:
        rows (Sequence[Sequence]): Cells; floats get four digits.
        right (Collection[int]): Columns to align on the right.
    """
    texts, widths = [], [0] * len(rows[0])
    for row in rows:
        texts.append([f'{cell:.4g}' if isinstance(cell, float) else str(cell)
                      for cell in row])
        for column, text in enumerate(texts[-1]):
            widths[column] = max(widths[column], len(text))
    for cells in texts:
        for column, width in enumerate(widths):
            cells[column] = (cells[column].rjust(width) if column in right
                             else cells[column].ljust(width))
    return texts


def markdown_table(rows: Sequence[Sequence], right: Collection[int] = ()
                   ) -> str:
    """Format a Markdown table that is readable in a terminal as well.

    Args:
        rows (Sequence[Sequence]): Cells; the first row is the head.
        right (Collection[int]): Columns to align on the right.
    """
    head, *others = pad(rows, right)
    rule = ['-' * len(cell) for cell in head]
    for column in right:
        rule[column] = rule[column][1:] + ':'
    return '\n'.join(f'| {" | ".join(cells)} |'
                     for cells in (head, rule, *others))
