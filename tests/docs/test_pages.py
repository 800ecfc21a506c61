# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What holds for every page, without building the site."""
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / 'docs'
PAGES = sorted(
    path.relative_to(DOCS).with_suffix('').as_posix()
    for path in DOCS.rglob('*.md')
    if not path.relative_to(DOCS).parts[0].startswith('_'))


def listed(page):
    """The patterns in the tables of contents of a page."""
    text = (DOCS / f'{page}.md').read_text(encoding='utf-8')
    for block in re.findall(r'^```{toctree}\n(.*?)^```$', text, re.M | re.S):
        for line in block.splitlines():
            if line and not line.startswith(':'):
                found = re.search(r'<(.+)>$', line)
                entry = found[1] if found else line
                yield (Path(page).parent / entry).as_posix()


CONTENTS = [pattern for page in PAGES for pattern in listed(page)]


@pytest.mark.parametrize('page', [p for p in PAGES if p != 'index'])
def test_every_page_stands_in_a_table_of_contents(page):
    assert any(fnmatch(page, pattern) for pattern in CONTENTS), (
        f'docs/{page}.md: name it in docs/index.md')


@pytest.mark.parametrize('path', [
    'README.md', 'CONTRIBUTING.md', 'CHANGELOG.md',
    *(f'docs/{page}.md' for page in PAGES)])
def test_relative_links_lead_to_files(path):
    """As on a git host; the site checks the anchors as well."""
    file = ROOT / path
    text = re.sub(r'^```.*?^```$|`[^`\n]*`|<!--.*?-->', '',
                  file.read_text('utf-8'), flags=re.M | re.S)
    for target in re.findall(r'\]\(([^)\s]+)\)', text):
        if re.match(r'\w+:|#', target):
            continue
        assert (file.parent / target.partition('#')[0]).exists(), (
            path, target)


def test_the_reference_has_every_analysis():
    """Whose modules have no ``__all__`` of their package."""
    page = (DOCS / 'api/analysis.md').read_text(encoding='utf-8')
    folder = ROOT / 'qbheat_mm/analysis'
    for path in folder.glob('*.py'):
        name = '.'.join(path.relative_to(ROOT).with_suffix('').parts)
        if path.stem not in ('__init__', 'style'):
            assert f'automodule:: {name}\n' in page, (
                f'{name}: name it in docs/api/analysis.md')
