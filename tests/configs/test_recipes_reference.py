# Copyright (c) QB-Heat MM authors. All rights reserved.
"""No value of any configuration changes without being looked at.

The tables of the other files of this name say what a value has to be, and
why. This is the net below them: it notices also what no source names.
"""
import importlib.util
import re
from pathlib import Path

import pytest

from .recipe import ALL, differences, resolved
from .reference import read
from .shipped import load

DOCS = Path(__file__).parents[2] / 'docs'
REFERENCE = read()


@pytest.mark.parametrize('name', ALL)
def test_values_are_as_last_looked_at(name):
    assert name in REFERENCE, (
        f'{name} is new: `make recipes` writes down its values')
    before, now = REFERENCE[name], resolved(name)
    changed = differences(name, before) + [
        f'{name}: {path} = {now[path]!r} is new' for path in now
        if path not in before]
    assert not changed, '\n'.join(
        [*changed, 'If this is meant: `make recipes`, then look at what it '
         'has changed under tests/data/recipes.'])


def test_no_reference_is_left_behind():
    assert set(REFERENCE) == set(ALL)


# The page that lists them


@pytest.fixture(scope='module')
def tool():
    spec = importlib.util.spec_from_file_location(
        'configs_page', DOCS.parent / 'tools/docs/configs_page.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def written():
    """What the page says of each configuration's size."""
    sizes = {}
    for line in (DOCS / 'configs.md').read_text().splitlines():
        name = re.search(r'\(\.\./configs/(.+\.py)\) \|', line)
        if name:
            image, params, madds = line.split(' | ')[3:6]
            sizes[name[1]] = (image, float(params),
                              None if madds == '-' else float(madds))
    return sizes


def test_the_page_lists_every_configuration_as_it_is(tool):
    sizes = written()
    assert sorted(sizes) == sorted(tool.shipped()) == ALL, (
        'make docs/configs.md anew: python tools/docs/configs_page.py')
    page = tool.page({name: load(name) for name in tool.shipped()}, sizes)
    assert page == (DOCS / 'configs.md').read_text(), (
        'make docs/configs.md anew: python tools/docs/configs_page.py')


def test_its_sizes_are_those_of_the_table_of_sizes(tool):
    """Whose own test counts them."""
    sizes, parts = written(), {}
    for line in (DOCS / 'model_sizes.md').read_text().splitlines():
        cells = [cell.strip() for cell in line.strip('|').split('|')]
        if cells[-1] in sizes:
            madds = None if cells[5] == '-' else float(cells[5])
            parts[cells[0], cells[1]] = cells[-1], float(cells[2]), madds
    seen = 0
    for (model, image), (name, params, madds) in parts.items():
        encoder = model.partition(' for ')[2]
        if encoder:  # a head
            params += parts[encoder, '800x1333'][1]
        if image == sizes[name][0]:
            assert sizes[name][1] == pytest.approx(params, abs=0.015), name
            if encoder and madds and image == '800x1333':
                madds += parts[encoder, image][2]
            if image != '800x1344':
                assert sizes[name][2] == pytest.approx(madds, abs=2e-3), name
            seen += 1
    assert seen > 30


def test_a_size_is_counted_as_the_page_says(tool):
    name = 'qbheat/benchmarks/mf-285m_8xb512-tran1-coslr-200e_in1k.py'
    image, params, madds = tool.measure(name, load(name))
    assert (image, round(params, 2), round(madds, 3)) == written()[name]
