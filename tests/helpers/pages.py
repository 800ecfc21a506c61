# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The code blocks of a page.

A page's test runs its blocks of ``python`` and ``bash``, unless a comment
that no reader sees stands above:

    <!-- needs: GPUs, ImageNet -->           no test can run it
    <!-- tested: tests/tools/test_x.py -->   another test runs it
"""
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = {f'docs/tutorials/{name}.md' for name in (
    'images', 'boxes', 'heads', 'own_encoder')}
_BLOCK = re.compile(
    r'(?:^ *<!-- (?P<kind>needs|tested): (?P<value>.*?) -->\n+)?'
    r'^(?P<indent> *)```(?P<language>\S*)\n(?P<text>.*?)^(?P=indent)```$',
    re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A code block: its page, first line, language, text and comment."""
    page: str
    line: int
    language: str
    text: str
    needs: str = ''
    tested: str = ''

    @property
    def is_code(self) -> bool:
        return self.language in ('python', 'bash')

    @property
    def where(self) -> str:
        return f'{self.page}:{self.line}'


def pages() -> list[str]:
    """All pages, relative to the project's folder."""
    found = [*ROOT.glob('*.md'), *(ROOT / 'docs').rglob('*.md'),
             ROOT / 'projects/study/README.md']
    return sorted(str(path.relative_to(ROOT)) for path in found
                  if '_build' not in path.parts)


def read_blocks(page: str) -> list[Block]:
    """The blocks of a page, in order."""
    content = (ROOT / page).read_text(encoding='utf-8')
    blocks = []
    for match in _BLOCK.finditer(content):
        line = content.count('\n', 0, match.start('text')) + 1
        mark = {match['kind']: match['value']} if match['kind'] else {}
        blocks.append(Block(page, line, match['language'],
                            textwrap.dedent(match['text']), **mark))
    return blocks
