# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The table that maps the paper's rows to configurations."""
import re
from pathlib import Path

from .shipped import NAMES

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / 'docs/paper_tables.md').read_text()


def test_it_names_every_config_and_no_other():
    named = set(re.findall(r'`((?:qbheat|mobile_former|mocov2)/[^`]+\.py)`',
                           TEXT))
    patterns = {name for name in named if '{E}' in name or '*' in name}
    for name in set(named) - patterns:
        assert name in NAMES
    for pattern in patterns:
        for encoder in ('285m', '1.0g', '3.7g'):
            found = list((ROOT / 'configs').glob(
                pattern.replace('{E}', encoder)))
            assert len(found) == 1, pattern
            named.add(str(found[0].relative_to(ROOT / 'configs')))
    assert named >= set(NAMES)


def test_it_has_every_table_of_the_paper():
    numbers = []
    for first, last in re.findall(r'^## Tables? (\d+)(?: to (\d+))?', TEXT,
                                  re.M):
        numbers += range(int(first), int(last or first) + 1)
    assert numbers == list(range(1, 17))


def test_the_tools_that_it_names_exist():
    for tool in set(re.findall(r'tools/[\w/]+\.(?:py|sh)', TEXT)):
        assert (ROOT / tool).is_file(), tool
