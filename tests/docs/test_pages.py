# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Pages are listed, and their links work."""
import importlib
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
from PIL import Image

from qbheat_mm.apis import build_encoder
from qbheat_mm.export import export_encoder

from ..helpers.pages import ROOT, pages, read_blocks

DOCS = ROOT / 'docs'


def listed(page):
    """The patterns in a page's tables of contents."""
    for block in re.findall(r'^```{toctree}\n(.*?)^```$',
                            (ROOT / page).read_text('utf-8'), re.M | re.S):
        for line in block.splitlines():
            if line and not line.startswith(':'):
                entry = re.search(r'<(.+)>$', line)
                entry = entry[1] if entry else line
                yield f'{(Path(page).parent / entry).as_posix()}.md'


def test_every_page_is_listed():
    patterns = [pattern for page in pages() for pattern in listed(page)]
    for page in pages():
        assert not page.startswith('docs/') or page == 'docs/index.md' or any(
            fnmatch(page, pattern) for pattern in patterns), page


def test_the_readme_stays_short():
    assert len((ROOT / 'README.md').read_text('utf-8').split()) <= 1250


@pytest.mark.parametrize('page', pages())
def test_relative_links_lead_to_files(page):
    """As on a git host; the site checks the anchors as well."""
    text = re.sub(r'^```.*?^```$|`[^`\n]*`|<!--.*?-->', '',
                  (ROOT / page).read_text('utf-8'), flags=re.M | re.S)
    for target in re.findall(r'\]\(([^)\s]+)\)', text):
        if not re.match(r'\w+:|#', target):
            file = (ROOT / page).parent / target.partition('#')[0]
            assert file.exists(), target


@pytest.mark.parametrize('text,expected', [
    ('[a](docs/export.md#onnx)', '[a](export.md#onnx)'),
    ('![a](docs/figures/demo.png)', '![a](figures/demo.png)'),
    ('[a](configs/)', 'a'),  # nothing to show or download
    ('[a](projects/drawn_world/PLAN.md)', 'a'),
    ('[a](projects/study/README.md#images)', '[a](study.md#images)'),
    ('[a](https://x.org) [b](#c)', '[a](https://x.org) [b](#c)'),
    ('`[a](configs/)`', '`[a](configs/)`'),
    ('```\n[a](configs/)\n```', '```\n[a](configs/)\n```')])
def test_links_of_the_readme_work_on_the_site(text, expected, monkeypatch):
    pytest.importorskip('sphinx')
    monkeypatch.syspath_prepend(str(DOCS / '_extensions'))
    rewrite = importlib.import_module('repository_links').rewrite
    assert rewrite(text, ROOT, DOCS) == expected
    page = '[a](../configs.md) [b](../../README.md#use-it)'
    assert rewrite(page, DOCS / 'api', DOCS / 'api') == (
        '[a](../configs.md) [b](../readme.md#use-it)')


def test_padding_changes_features(tmp_path, monkeypatch, capsys):
    """The page on detection measures what an encoder sees of it."""
    monkeypatch.chdir(tmp_path)
    encoder = build_encoder('qbheat_mf-285m_8xb128-amp-coslr-100e_in1k')
    export_encoder(encoder, 'encoder.safetensors')
    Image.radial_gradient('L').save('photo.jpg')
    block, = (block for block in read_blocks('docs/detection.md')
              if block.tested == 'tests/docs/test_pages.py')
    exec(block.text, {})
    changes = capsys.readouterr().out.splitlines()[-2:]
    assert all(0 < float(each) < 1 for each in changes), changes
