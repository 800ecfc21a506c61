# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Pages link names to the files that define them, the paper's in full."""
import ast
import re
from functools import cache

import pytest

from ..helpers.pages import ROOT, pages

#: Equations, figures and tables that the paper prints.
PRINTED = dict(Eq=12, Fig=14, Table=16)
LINK = re.compile(r'\[([\w.]+)\]\(([^)\s#]+\.py)\)')


def names_of(tree, prefix=''):
    """Yield names that a module or class defines, and those of its classes."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            for name in ast.walk(node):
                if isinstance(name, ast.Name):
                    yield prefix + name.id
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield prefix + node.name
            if isinstance(node, ast.ClassDef):
                yield from names_of(node, f'{prefix}{node.name}.')


@cache
def defined(file):
    return {*names_of(ast.parse(file.read_text('utf-8')))}


def is_name(text):
    """Whether a link's text is a name in code, rather than a word or file."""
    return not text.endswith('.py') and bool(re.search(r'[A-Z_.]', text))


@pytest.mark.parametrize('page', pages())
def test_linked_names_are_defined_in_the_file(page):
    for name, target in LINK.findall((ROOT / page).read_text('utf-8')):
        file = ((ROOT / page).parent / target).resolve()
        assert not is_name(name) or name in defined(file), (name, target)


def test_equations_figures_and_tables_have_their_code():
    page = (ROOT / 'docs/paper_tables.md').read_text('utf-8')
    index = page[page.index('## Equations and figures'):].split('\n\n')[1]
    rows = re.findall(r'^\| ((?:Eq|Fig|Table).*?) \|', index, re.M)
    found = {kind: [] for kind in PRINTED}
    for cell in rows:
        for kind, numbers in re.findall(
                r'(Eq|Fig|Table)s?\.? ((?:\d+[ab]?(?:, | to )?)+)', cell):
            for first, last in re.findall(r'(\d+)[ab]?(?: to (\d+))?',
                                          numbers):
                found[kind] += range(int(first), int(last or first) + 1)
    for kind, number in PRINTED.items():
        assert sorted({*found[kind]}) == [*range(1, number + 1)], kind
