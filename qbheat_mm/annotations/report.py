# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What was found in a data set, told in lines."""
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from mmengine.logging import print_log

from ..errors import UserError

#: What becomes of that which a finding counts.
STOPS, DROPPED, MENDED, KEPT = 'stops', 'dropped', 'mended', 'kept'

_SEVERAL_SEE = ("; {} more kinds of faults: 'python tools/check_data.py "
                "CONFIG' lists them")


@dataclass(frozen=True)
class Finding:
    """One kind of fault, with how often it is there.

    Attributes:
        effect (str): ``'stops'``: the set is useless or would be trained on
            as something else; ``'dropped'``: so many boxes are left out;
            ``'mended'``: read as what was meant; ``'kept'``: worth a look.
        what (str): The fault, as ``'boxes are of unknown images'``.
        count (int, optional): How many; None for the file as a whole.
        total (int, optional): Of how many; None where that says nothing.
        example (str): One of them.
        way_out (str): What to do about it.
    """
    effect: str
    what: str
    count: int | None = None
    total: int | None = None
    example: str = ''
    way_out: str = ''

    def __str__(self) -> str:
        of_all = '' if self.total is None else f' of {self.total}'
        example = f' ({self.example})' if self.example else ''
        way_out = f': {self.way_out}' if self.way_out else ''
        number = '' if self.count is None else f'{self.count}{of_all} '
        return f'{number}{self.what}{example}{way_out}'


@dataclass
class Report:
    """Findings in one file or folder, and what it holds.

    Attributes:
        name (str): The file or folder.
        kind (str): What it is, for messages.
        findings (list[Finding]): In the order in which they were found.
        summary (str): What the set holds, in one line.
        boxes (int): Boxes that the file holds.
        kept (int): Boxes that training or evaluation gets.
        per_class (dict[str, int]): Of the kept boxes, those of each class.
    """
    name: str
    kind: str = 'annotation file'
    findings: list[Finding] = field(default_factory=list)
    summary: str = ''
    boxes: int = 0
    kept: int = 0
    per_class: dict[str, int] = field(default_factory=dict)

    def add(self, *args, **kwargs) -> None:
        """Add a :class:`Finding` unless it counts nothing."""
        finding = Finding(*args, **kwargs)
        if finding.count != 0:
            self.findings.append(finding)

    def of(self, effect: str) -> list[Finding]:
        """The findings of one effect."""
        return [each for each in self.findings if each.effect == effect]

    @property
    def stops(self) -> bool:
        """Whether the set cannot be used."""
        return bool(self.of(STOPS))

    def count(self, effect: str) -> int:
        """How much the findings of one effect count together."""
        return sum(each.count or 1 for each in self.of(effect))

    def require(self) -> None:
        """Raise if the set cannot be used.

        Raises:
            UserError: With the first finding that stops.
        """
        stops = self.of(STOPS)
        if not stops:
            return
        more = len(stops) - 1
        more = _SEVERAL_SEE.format(more) if more else ''
        raise UserError(f"{self.kind} '{self.name}': {stops[0]}{more}")

    def warn(self) -> None:
        """Log what does not stop, one warning each."""
        for line in self.warnings():
            print_log(f"{self.kind} '{self.name}': {line}",
                      logger='current', level=logging.WARNING)

    def warnings(self) -> Iterable[str]:
        """What does not stop, in lines."""
        for finding in self.of(DROPPED):
            yield f'{finding}; left out'
        for finding in self.of(MENDED) + self.of(KEPT):
            yield str(finding)
