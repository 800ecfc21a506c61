# Copyright (c) QB-Heat MM authors. All rights reserved.
"""No value of a config changes unnoticed.

test_recipes_paper.py has the papers' values; this compares all values with
those last reviewed, in tests/data/recipes.
"""
import re

import pytest

from ..conftest import ROOT, import_tool
from .reference import ALL, read, resolved
from .shipped import NAMES, load

DOCS = ROOT / 'docs'
REFERENCE = read()
tool = import_tool('analysis/complexity.py')


@pytest.mark.parametrize('name', sorted({*ALL, *REFERENCE}))
def test_values_are_as_last_reviewed(name):
    assert name in REFERENCE and name in ALL, 'run `make recipes`'
    assert resolved(name) == REFERENCE[name], (
        'if this is intended, run `make recipes` and review the diff')


def written():
    """Return image size, parameters and MAdds of each row of the page."""
    sizes = {}
    for line in (DOCS / 'configs.md').read_text().splitlines():
        for name in re.findall(r'\(\.\./configs/(.+?\.py)\)', line):
            image, params, madds = line.rstrip('| ').split(' | ')[2:5]
            sizes[name] = (image, float(params),
                           None if madds == '-' else float(madds))
    return sizes


def test_the_page_of_configs_is_up_to_date():
    sizes = written()
    assert sorted(sizes) == sorted(tool.shipped()) == NAMES, 'run `make pages`'
    tables = tool.config_tables(
        {name: load(name) for name in tool.shipped()}, sizes)
    page = tool.page('all_configs.md', tables)
    assert page == (DOCS / 'configs.md').read_text(), 'run `make pages`'


@pytest.mark.parametrize('name', [
    'qbheat/benchmarks/mf-285m_8xb512-tran1-coslr-200e_in1k.py',
    'qbheat/coco/dino_mf-285m_4scale_frozen_8xb2-12e_coco.py',
    'qbheat/coco/panoptic-fpn_mf-285m_fpn_frozen_8xb2-1x_coco.py'])
def test_the_page_of_configs_has_the_measured_size(name):
    image, params, madds = tool.measure_config(load(name))
    assert (image, round(params, 2), madds and round(madds, 3)) == (
        written()[name])
