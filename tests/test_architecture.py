# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Imports point inward only, as docs/architecture.md says."""
import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / 'docs/architecture.md').read_text(encoding='utf-8')
PACKAGE = 'qbheat_mm'


def layers():
    """Map packages to the number of their layer, outermost first."""
    table = PAGE[PAGE.index('| layer | packages'):].split('\n\n')[0]
    return {package: number
            for number, row in enumerate(table.splitlines()[2:])
            for package in re.findall(r'`(\w+)`', row.split('|')[2])}


LAYERS = layers()


def modules():
    """Yield the dotted name and file of each module."""
    for file in sorted((ROOT / PACKAGE).rglob('*.py')):
        if '.mim' not in file.parts:
            parts = file.relative_to(ROOT).with_suffix('').parts
            yield '.'.join(parts).removesuffix('.__init__'), file


MODULES = dict(modules())


def package_of(name):
    """Return the package or module of the table that a module belongs to."""
    return (name.split('.') + [PACKAGE])[1]


def imported(name, source, is_package):
    """Yield the line and name of each of our modules that it imports."""
    folder = name.split('.') if is_package else name.split('.')[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = folder[:len(folder) - node.level + 1]
            base = '.'.join((above if node.level else []) + (
                [node.module] if node.module else []))
            found = [f'{base}.{alias.name}' for alias in node.names]
        else:
            continue
        for each in found:
            while each and each not in MODULES:  # a name within a module
                each = each.rpartition('.')[0]
            if each:
                yield node.lineno, each


def violations(name, source, is_package=False):
    own = package_of(name)
    for line, other in imported(name, source, is_package):
        package = package_of(other)
        # `import qbheat_mm` only registers its parts.
        if package not in (own, PACKAGE) and LAYERS[package] <= LAYERS[own]:
            yield f'{name}, line {line}: {own} may not import {package}'


def test_every_package_has_a_layer():
    assert {package_of(name) for name in MODULES} == set(LAYERS)


@pytest.mark.parametrize('name', MODULES)
def test_modules_import_only_from_lower_layers(name):
    file = MODULES[name]
    assert not list(violations(name, file.read_text(encoding='utf-8'),
                               file.name == '__init__.py'))


def outside(file):
    """Yield the other packages that a module imports."""
    for node in ast.walk(ast.parse(file.read_text(encoding='utf-8'))):
        found = []
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found = [node.module]
        for name in found:
            package = name.split('.')[0]
            if package not in {*sys.stdlib_module_names, PACKAGE}:
                yield package


@pytest.mark.parametrize('row', PAGE[PAGE.index('| registration'):].split(
    '\n\n')[0].splitlines(), ids=lambda row: row.split('|')[1].strip())
def test_the_table_tells_what_a_layer_needs(row):
    _, _, packages, _, needs, _ = row.split('|')
    found = set()
    for name, file in MODULES.items():
        if package_of(name) in re.findall(r'`(\w+)`', packages):
            found.update(outside(file))
    assert {*re.findall(r'`(\w+)`', needs)} == found - {
        'torch', 'mmengine', 'numpy'}


#: Comprehensions that a folder may have per 100 statements.
DENSITY = {
    'qbheat_mm': 3.5,
    'benchmarks': 4.5,
    'tools': 4.5,
    'projects': 4.5,
}
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def is_comprehension(node):
    """Whether a node is one, or a call that takes its place."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ('map', 'filter', 'starmap', 'reduce')
    return isinstance(node, COMPREHENSIONS)


def nodes(folder):
    """Yield the file and each node of the modules of a folder."""
    path = ROOT / folder
    for file in path.rglob('*.py') if path.is_dir() else [path]:
        if '.mim' not in file.parts:
            for node in ast.walk(ast.parse(file.read_text('utf-8'))):
                yield file.relative_to(ROOT), node


@pytest.mark.parametrize('folder', DENSITY)
def test_loops_are_more_common_than_comprehensions(folder):
    statements = comprehensions = 0
    for _, node in nodes(folder):
        statements += isinstance(node, ast.stmt) and not (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str))  # docstrings
        comprehensions += is_comprehension(node)
    assert 100 * comprehensions <= DENSITY[folder] * statements, (
        f'{folder} has {comprehensions} comprehensions in {statements} '
        'statements: write loops')


@pytest.mark.parametrize('name', MODULES)
def test_no_module_is_longer_than_400_lines(name):
    assert len(MODULES[name].read_text('utf-8').splitlines()) <= 400


@pytest.mark.parametrize('folder', [*DENSITY, 'tests'])
def test_no_comprehension_is_nested(folder):
    for file, node in nodes(folder):
        if is_comprehension(node):
            nested = [inner for inner in ast.walk(node)
                      if inner is not node and is_comprehension(inner)]
            assert not nested, f'{file}, line {node.lineno}: write a loop'


@pytest.mark.parametrize('folder', DENSITY)
def test_no_function_is_longer_than_40_lines(folder):
    for file, node in nodes(folder):
        if isinstance(node, ast.FunctionDef):
            body = node.body[ast.get_docstring(node) is not None:] or node.body
            length = node.end_lineno - body[0].lineno + 1
            assert length <= 40, f'{file}: {node.name} has {length} lines'


def test_the_package_imports_neither_tools_nor_projects():
    for name, file in MODULES.items():
        assert not re.search(r'^\s*(from|import) (tools|projects)\b',
                             file.read_text(encoding='utf-8'), re.M), name


@pytest.mark.parametrize('file', sorted(
    (ROOT / 'tools').rglob('*.py'), key=str), ids=lambda file: file.stem)
def test_tools_import_the_package_at_the_top(file):
    """Or a comment says why not."""
    source = file.read_text(encoding='utf-8')
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            imported = node.module
        elif isinstance(node, ast.Import):
            imported = node.names[0].name
        else:
            continue
        above = source.splitlines()[node.lineno - 2].strip()
        assert (imported.split('.')[0] != PACKAGE or not node.col_offset
                or above.startswith('#')), f'{file}, line {node.lineno}'


@pytest.mark.parametrize('file', sorted((ROOT / 'tests').rglob('*.py')),
                         ids=lambda file: f'{file.parent.name}/{file.stem}')
def test_only_pytest_imports_tests_and_fixtures(file):
    """What several modules share is in helpers, or in a module beside them."""
    for node in ast.walk(ast.parse(file.read_text(encoding='utf-8'))):
        if isinstance(node, ast.ImportFrom) and node.level:
            names = [alias.name for alias in node.names]
            for name in (node.module or '').split('.') + names:
                assert not name.startswith(('test_', 'conftest')), (
                    f'line {node.lineno}: move it to tests/helpers')
