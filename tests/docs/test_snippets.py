# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Commands on pages name tools, options and configs that exist."""
import argparse
import re

import pytest
from mmengine.config import Config, DictAction

from qbheat_mm.config.options import check_values

from ..helpers.pages import ROOT, TUTORIALS, pages, read_blocks

BLOCKS = [block for page in pages() for block in read_blocks(page)]
TOOL = re.compile(r'(?<![\w/])(tools/[\w/]+\.(?:py|sh))')


@pytest.mark.parametrize('block', [block for block in BLOCKS if block.is_code],
                         ids=lambda block: block.where)
def test_code_is_tested_or_says_why_not(block):
    assert block.needs or block.tested or block.page in TUTORIALS, (
        'write <!-- tested: tests/FILE.py --> or <!-- needs: GPUs --> above')
    for file in filter(None, block.tested.split(', ')):
        assert (ROOT / file).is_file()


@pytest.mark.parametrize('block', BLOCKS, ids=lambda block: block.where)
def test_tools_options_and_configurations_exist(block):
    for config in re.findall(r'(?<![\w/])configs/[\w./-]+?\.py', block.text):
        assert (ROOT / config).is_file(), config
    shared = ''.join(path.read_text(encoding='utf-8') for path in (
        ROOT / 'qbheat_mm').rglob('*.py'))
    for line in re.sub(r'\\\n', ' ', block.text).split('\n'):
        found = TOOL.search(line.split('#')[0])
        if not found or 'MMDET' in line:
            continue
        tool = ROOT / found[1]
        assert tool.is_file(), tool
        known = shared + ''.join(path.read_text(encoding='utf-8') for path in (
            tool, ROOT / 'tools/train.py', *tool.parent.glob('common.py')))
        for option in re.findall(r'(?<=[ \[])--[a-z][\w-]+', line):
            assert f"'{option}'" in known, option


def inline_settings():
    """Yield ``KEY=VALUE`` in running text and pictures, no placeholders."""
    for picture in (ROOT / 'docs/figures').glob('*.svg'):
        yield from re.findall(r'class="code".*>([\w.]+=[^<]+)<',
                              picture.read_text(encoding='utf-8'))
    for page in pages():
        text = (ROOT / page).read_text(encoding='utf-8')
        for span in re.findall(r'`([a-z_]+(?:\.\w+)+=\S[^`\n]*)`', text):
            if page != 'CHANGELOG.md':
                yield from (word for word in span.split()
                            if not re.search(r'=(.*/)?[A-Z_]+$', word))


@pytest.mark.parametrize('word', sorted({*inline_settings()}))
def test_settings_in_the_text_can_be_given_to_mmengine(word):
    parser = argparse.ArgumentParser()
    parser.add_argument('--cfg-options', nargs='+', action=DictAction)
    options = parser.parse_args(['--cfg-options', word]).cfg_options
    cfg = Config.fromfile(ROOT / 'configs/qbheat/qbheat_mf-285m_1xb64-amp'
                          '-coslr-80e_own-images.py')
    cfg.merge_from_dict(options)
    check_values(cfg)
