# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Numbers of results come from rows, or name what prints them."""
import re

import pytest

from ..helpers.pages import ROOT, pages

#: Pages whose numbers have other sources.
OTHERS = {
    'docs/paper_tables.md': "the paper's, as it says",
    'docs/configs.md': 'written by tools/analysis/complexity.py',
    'docs/model_sizes.md': 'written by tools/analysis/complexity.py',
    'docs/demo.md': 'what one run of the demo printed, as it says',
    'CHANGELOG.md': 'as they were then'}
#: Where numbers may stand.
FILLED = re.compile(
    r'<!--=.*?<!--/-->'  # a number of the report
    r'|<!-- (?P<name>\w+) -->.*?<!-- /(?P=name) -->'  # a block of it
    r'|<!-- measured: .*?\n\n'  # until the paragraph ends
    r'|^ *```.*?^ *```$|`[^`\n]*`|\]\([^)]*\)',  # code, targets of links
    re.S | re.M)
MEASURED = re.compile('<!-- measured: (.*?) -->')
#: Percentages such as 46.8, differences, ratios; no versions, no limits.
RESULT = re.compile(
    r'(?<![\w.])(?<!below )(?<!near )(?:'
    r'\d{2,3}\.\d(?![.\w])|[+-]\d+\.\d|0\.\d\d(?![.\w])'
    r'|\d+\.\d+(?= (?:AP|points|times|and \d)))')


def results(text):
    """The numbers of a page that look like results and have no source."""
    return RESULT.findall(FILLED.sub(' ', text))


@pytest.mark.parametrize('page', sorted({*pages()} - {*OTHERS}))
def test_numbers_of_results_are_filled_in(page):
    text = (ROOT / page).read_text('utf-8')
    assert not results(text), (
        'name rows, <!--=ARM/STAGE/METRIC--><!--/-->, name the benchmark, '
        '<!-- measured: FILE -->, or write words')
    # A line that starts with a comment is no Markdown.
    assert not re.search('^ *<!--=', text, re.M)
    for names in MEASURED.findall(text):
        for name in names.split(', '):
            assert (ROOT / name).is_file(), name


@pytest.mark.parametrize('text,found', [
    ('reaches 46.8 ± 1.0, 7.3 AP', ['46.8', '7.3']),
    ('falls by -2.1, takes 0.56 or 1.5 times', ['-2.1', '0.56', '1.5']),
    ('<!--=a/b/c-->46.8<!--/--> and 33.1', ['33.1']),
    ('<!-- results -->\n| 46.8 |\n<!-- /results -->\n| 46.9 |', ['46.9']),
    ('<!-- measured: benchmarks/heads.py -->\n| 0.56 |\n\n0.57', ['0.57']),
    ('torch 2.13, Apache 2.0, 0.6 MB, below 0.95, `a=0.56`, [a](b/31.5)', [])])
def test_what_looks_like_a_result(text, found):
    assert results(text) == found
