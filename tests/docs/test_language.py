# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Habits that make prose read like a translation."""
import re

import pytest

from .reading import ROOT, pages

HABITS = {
    'a description begins with "Of"': r'(\): |: |"""|^ +)Of [a-z`:]',
    'a comment is a relative clause': r'# (which|whose|what|who) ',
    '"beside" means next to': r'\bbeside\b',
    'British spelling': r"(?<!')\b(un)?labelled\b",
    'a heading begins with "What"': r'^#+ What ',
}


def texts():
    """Yield the name and lines of each source and page."""
    for folder in ('qbheat_mm', 'tools', 'projects', 'configs'):
        for file in sorted((ROOT / folder).rglob('*.py')):
            if '.mim' not in file.parts:
                yield file.relative_to(ROOT), file.read_text('utf-8')
    for page in set(pages()) - {'CHANGELOG.md'}:  # names of older versions
        yield page, (ROOT / page).read_text('utf-8')


@pytest.mark.parametrize('habit', HABITS)
def test_habits_to_avoid(habit):
    assert not [f'{name}:{number}: {line}' for name, text in texts()
                for number, line in enumerate(text.splitlines(), 1)
                if re.search(HABITS[habit], line)]
