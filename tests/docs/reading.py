# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The blocks of code of a page, and what a page says about them.

A block is run by the test of its page unless a comment stands before it,
which no reader sees:

    <!-- needs: GPUs, ImageNet -->           nobody can run it in a test
    <!-- tested: tests/tools/test_x.py -->   another test runs it

Only blocks of ``python`` and ``bash`` are code; ``text`` and others are not.
A block that is indented instead of fenced is taken for one of ``bash``.
"""
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: What a page may say that a block needs.
NEEDS = {'GPUs', 'ImageNet', 'COCO', 'Slurm', 'a network', 'minutes'}
#: Pages that a test runs from the top.
RUN = {f'docs/tutorials/{name}.md' for name in (
    'images', 'boxes', 'own_encoder', 'heat_equation')}
CODE = {'python', 'bash', 'indented'}
_COMMENT = re.compile(r'<!-- (needs|tested): (.*?) -->')
_FENCE = re.compile(r'( *)```(\S*)')


@dataclass(frozen=True)
class Block:
    """Lines of code on a page.

    Attributes:
        page (str): File below the project's folder.
        line (int): Of its first line, from 1.
        language (str): As the fence says, or 'indented'.
        text (str): The lines without their indent.
        needs (tuple[str, ...]): What keeps tests from running it.
        tested (tuple[str, ...]): Files of the tests that run it.
    """
    page: str
    line: int
    language: str
    text: str
    needs: tuple = ()
    tested: tuple = ()

    @property
    def is_code(self) -> bool:
        return self.language in CODE

    @property
    def where(self) -> str:
        return f'{self.page}:{self.line}'


def pages() -> list[str]:
    """All pages of the project, below its folder."""
    found = [*ROOT.glob('*.md'), *(ROOT / 'docs').rglob('*.md')]
    return sorted(str(path.relative_to(ROOT)) for path in found
                  if '_build' not in path.parts)


def read_blocks(page: str, text: str | None = None) -> list[Block]:
    """The blocks of a page, in order.

    Args:
        page (str): File below the project's folder.
        text (str, optional): By default what is in it.
    """
    if text is None:
        text = (ROOT / page).read_text(encoding='utf-8')
    lines, found, said = text.split('\n'), [], {}
    number = 0
    while number < len(lines):
        line = lines[number]
        comment = _COMMENT.fullmatch(line.strip())
        fence = _FENCE.match(line)
        if comment:
            said = _meaning(*comment.groups())
        elif fence:
            end = _end_of_fence(lines, number)
            found.append(_block(page, lines, number + 1, end, fence[2], said))
            said, number = {}, end
        elif _is_indented(lines, number):
            end = number
            while end < len(lines) and re.match(r' {4}|\s*$', lines[end]):
                end += 1
            found.append(_block(page, lines, number, end, 'indented', said))
            said, number = {}, end - 1
        elif line.strip():
            said = {}
        number += 1
    return found


def _meaning(kind: str, value: str) -> dict:
    return {kind: tuple(re.split(', *', value))}


def _end_of_fence(lines: list[str], start: int) -> int:
    for number in range(start + 1, len(lines)):
        if lines[number].strip() == '```':
            return number
    raise AssertionError(f'a block is not closed: {lines[start]}')


def _is_indented(lines: list[str], number: int) -> bool:
    """Whether a block begins here: after a blank line, and in no list."""
    if not re.match(r' {4}\S', lines[number]) or lines[number - 1].strip():
        return False
    before = [line for line in lines[:number] if line.strip()]
    above = next((line for line in reversed(before)
                  if not line.startswith(' ')), '')
    return not re.match(r'([-*+]|\d+\.) ', above)


def _block(page, lines, start, end, language, said) -> Block:
    part = lines[start:end]
    indent = min((len(line) - len(line.lstrip()) for line in part
                  if line.strip()), default=0)
    text = '\n'.join(line[indent:] for line in part).strip('\n') + '\n'
    return Block(page, start + 1, language, text, **said)
