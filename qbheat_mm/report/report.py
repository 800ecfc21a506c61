# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The result of an analysis: JSON, pictures and arrays."""
import os
import os.path as osp
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import methodcaller
from pathlib import Path

import msgspec
import numpy as np

from ..errors import UserError, printable
from .style import in_style
from .table import Table

#: Resolution of pictures, high enough for print.
DPI = 200


@dataclass
class Report:
    """The result of one analysis.

    Attributes:
        analysis (str): Its name, such as ``'spectrum'``.
        title (str): Headline.
        caption (str): Explains the pictures, with units.
        tables (list[Table]): The numbers to print.
        numbers (dict): All numbers by name, also as arrays and tensors.
        pictures (list[str]): PNG files, relative to the report.
        source (dict): Origin of the numbers, such as ``command``.
        tiles (bool): Whether pages show pictures side by side, as many as
            fit.
    """
    analysis: str
    title: str
    caption: str
    tables: list[Table] = field(default_factory=list)
    numbers: dict = field(default_factory=dict)
    pictures: list[str] = field(default_factory=list)
    source: dict = field(default_factory=dict)
    tiles: bool = False

    def to_json(self) -> str:
        """Convert to JSON; numbers that are not finite become null."""
        content = msgspec.json.encode(self, enc_hook=methodcaller('tolist'))
        return msgspec.json.format(content, indent=1).decode()

    def save(self,
             folder: str,
             figures: Mapping,
             arrays: Mapping[str, np.ndarray] | None = None) -> None:
        """Write the report, its pictures and arrays, and print its tables.

        Args:
            folder (str): Created if missing.
            figures (Mapping): Name to matplotlib figure.
            arrays (Mapping, optional): Name to array, for one NPZ file.
        """
        os.makedirs(folder, exist_ok=True)
        self.pictures = []
        self.source.setdefault('command', command_line())
        for name, figure in figures.items():
            self.pictures.append(f'{name}.png')
            with in_style():
                figure.savefig(osp.join(folder, f'{name}.png'), dpi=DPI)
        if arrays:
            np.savez_compressed(osp.join(folder, f'{self.analysis}.npz'),
                                **arrays)
        Path(folder, f'{self.analysis}.json').write_text(
            self.to_json(), encoding='utf-8')
        print(f'{self.title}: {self.analysis}.json in {folder}')
        for table in self.tables:
            print(f'\n{table}')


def command_line() -> str:
    """The running command, paths relative to the working or home directory."""
    command = shlex.join(['python', *sys.argv])
    for folder, short in ((os.getcwd(), ''), (osp.expanduser('~'), '~/')):
        command = re.sub(rf'(?<![^\s="\':]){re.escape(folder)}/', short,
                         command)
    return printable(command)


def read_report(file: str) -> Report | None:
    """Read a report; None for JSON files with other content.

    Raises:
        UserError: If a value has the wrong type.
    """
    try:
        content = msgspec.json.decode(Path(file).read_bytes())
    # Logs hold one JSON value per line.
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not isinstance(content, dict) or not {
            'analysis', 'title', 'caption'} <= set(content):
        return None
    try:
        return msgspec.convert(content, Report)
    except msgspec.ValidationError as error:
        raise UserError(f"report '{file}': {error}") from error
