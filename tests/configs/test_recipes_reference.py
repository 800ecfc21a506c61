# Copyright (c) QB-Heat MM authors. All rights reserved.
"""No value of a config changes unnoticed.

Values that a paper names are in test_recipes_paper.py; this compares all of
them with the last reviewed state under tests/data/recipes.
"""
import importlib.util
import re
from pathlib import Path

import pytest

from .recipe import ALL, resolved
from .reference import read
from .shipped import load

DOCS = Path(__file__).parents[2] / 'docs'
REFERENCE = read()


@pytest.mark.parametrize('name', ALL)
def test_values_are_as_last_reviewed(name):
    assert name in REFERENCE, (
        f'{name} is new: run `make recipes`')
    before, now = REFERENCE[name], resolved(name)
    assert now == before, (
        'if this is meant, run `make recipes` and review the diff')


def test_no_reference_is_stale():
    assert set(REFERENCE) == set(ALL)


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
        line = line.replace('projects/drawn_world/configs', 'configs/demo')
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


def test_a_size_is_counted_as_the_page_says(tool):
    name = 'qbheat/benchmarks/mf-285m_8xb512-tran1-coslr-200e_in1k.py'
    image, params, madds = tool.measure(name, load(name))
    assert (image, round(params, 2), round(madds, 3)) == written()[name]
