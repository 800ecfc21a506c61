# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What ``make docs`` relies on; CI builds the site itself."""
import ast
import importlib
import os
import re

import pytest

from .reading import ROOT

DOCS = ROOT / 'docs'


@pytest.fixture
def rewrite(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / '_extensions'))
    return importlib.import_module('repository_links').rewrite


@pytest.mark.parametrize('text,expected', [
    ('[a](docs/export.md#onnx)', '[a](export.md#onnx)'),
    ('[a](tools/train.py)', '[a](../tools/train.py)'),
    ('![a](docs/figures/demo.png)', '![a](figures/demo.png)'),
    ('[a](configs/)', 'a'),  # nothing to show or download
    ('[a](CONTRIBUTING.md)', '[a](contributing.md)'),
    ('[a](https://x.org) [b](#c)', '[a](https://x.org) [b](#c)'),
    ('`[a](configs/)`', '`[a](configs/)`'),
    ('```\n[a](configs/)\n```', '```\n[a](configs/)\n```'),
    ('[`a`](configs/)', '`a`')])
def test_links_of_the_readme_work_on_the_site(rewrite, text, expected):
    assert rewrite(text, ROOT, DOCS) == expected


def test_links_of_pages_are_kept(rewrite):
    page = '[a](../configs.md) [b](../../README.md#use-it)'
    assert rewrite(page, DOCS / 'api', DOCS / 'api') == (
        '[a](../configs.md) [b](../readme.md#use-it)')


def test_the_reference_names_nothing_that_was_removed():
    text = ''.join(path.read_text(encoding='utf-8')
                   for path in (DOCS / 'api').glob('*.md'))
    for name in re.findall(r'auto(?:module|class):: (\S+)', text):
        path = ROOT / name.replace('.', os.sep)
        assert (path.with_suffix('.py').exists() or path.is_dir()
                or defines(path.parent.with_suffix('.py'), path.name)), name


def defines(file, name):
    return file.exists() and any(
        getattr(node, 'name', '') == name
        for node in ast.parse(file.read_text('utf-8')).body)
