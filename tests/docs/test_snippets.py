# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Each block of code on a page is run by a test, or says what it needs."""
import argparse
import re
import shlex
from pathlib import Path

import pytest
from mmengine.config import Config, DictAction

from qbheat_mm.cli.option_check import check_values

from .reading import NEEDS, ROOT, RUN, pages, read_blocks

BLOCKS = [block for page in pages() for block in read_blocks(page)]
CODE = [block for block in BLOCKS if block.is_code]
HELP = """give it a test and write above the block
<!-- tested: tests/FILE.py -->, or what no test has,
<!-- needs: {} -->""".format(' | '.join(sorted(NEEDS)))
#: Programs of the project that a line starts.
TOOL = re.compile(r'(?<![\w/])(tools/[\w/]+\.(?:py|sh))')
#: Stand-ins for a file of the reader's own.
OWN = {'configs/qbheat/coco/my_data.py'}


@pytest.mark.parametrize('block', CODE, ids=lambda block: block.where)
def test_it_is_run_or_says_why_not(block):
    if block.needs:
        assert set(block.needs) <= NEEDS, HELP
        return
    if not block.tested:
        assert block.page in RUN, f'{block.where} is run by no test: {HELP}'
        return
    texts = ''
    for file in block.tested:
        assert (ROOT / file).is_file(), f'{block.where} names {file}'
        texts += (ROOT / file).read_text(encoding='utf-8')
    for tool in TOOL.findall(block.text):
        name = Path(tool).stem
        # The tools of training and testing are used by fixtures, too.
        assert name in texts or name in ('train', 'test'), (
            f'{block.where}: {block.tested} never name {tool}')


@pytest.mark.parametrize('block', BLOCKS, ids=lambda block: block.where)
def test_tools_options_and_configurations_exist(block):
    for config in re.findall(r'(?<![\w/])configs/[\w./-]+?\.py', block.text):
        assert (ROOT / config).is_file() or config in OWN, (
            f'{block.where}: {config}')
    shared = ''.join(path.read_text(encoding='utf-8') for path in (
        ROOT / 'qbheat_mm/cli').glob('*.py'))
    for line in re.sub(r'\\\n', ' ', block.text).split('\n'):
        found = TOOL.search(line.split('#')[0])
        if not found or 'MMDET' in line:
            continue
        tool = ROOT / found[1]
        assert tool.is_file(), f'{block.where}: {found[1]}'
        known = shared + ''.join(path.read_text(encoding='utf-8') for path in (
            tool, *tool.parent.glob('common.py')))
        if tool.suffix == '.sh':
            known += (ROOT / 'tools/train.py').read_text(encoding='utf-8')
        for option in re.findall(r'(?<=[ \[])--[a-z][\w-]+', line):
            assert f"'{option}'" in known, f'{block.where}: {option}'


def test_python_of_the_contributors_guide_runs():
    names = {}
    for block in read_blocks('CONTRIBUTING.md'):
        if block.language == 'python':
            exec(compile(block.text, block.where, 'exec'), names)
    assert names


def test_pages_that_are_run_exist():
    assert set(pages()) >= RUN


PAGE = """# Title

<!-- needs: GPUs, COCO -->

```bash
first
```

Words after a comment

    second \\
        on

- an item

    of two paragraphs

<!-- tested: tests/a.py -->
Words between.

```python
third
```

```text
no code
```
"""


def test_blocks_and_what_is_said_of_them():
    first, second, third, last = read_blocks('page.md', PAGE)
    assert first.needs == ('GPUs', 'COCO') and first.line == 6
    assert (second.language, second.text) == (
        'indented', 'second \\\n    on\n')
    assert second.needs == () and second.is_code
    # A comment is about what it stands before.
    assert third.tested == () and third.language == 'python'
    assert not last.is_code
    with pytest.raises(AssertionError, match='not closed'):
        read_blocks('page.md', '```bash\nnever ends\n')


def inline_settings():
    """``KEY=VALUE`` of the running text, but placeholders."""
    for page in pages():
        if page == 'CHANGELOG.md':
            continue
        text = (ROOT / page).read_text(encoding='utf-8')
        for span in re.findall(r'`([^`\n]+)`', text):
            if re.match(r'[a-z_]+(\.\w+)+=\S', span):
                for word in shlex.split(span):
                    if not re.search(r'=(.*/)?[A-Z_]+$', word):
                        yield pytest.param(word, id=f'{page}: {word}')


@pytest.mark.parametrize('word', list(inline_settings()))
def test_settings_in_the_text_can_be_given_to_mmengine(word):
    """They are for mim and the toolboxes' own tools as well as for ours."""
    parser = argparse.ArgumentParser()
    parser.add_argument('--cfg-options', nargs='+', action=DictAction)
    options = parser.parse_args(['--cfg-options', word]).cfg_options
    cfg = Config.fromfile(ROOT / 'configs/qbheat/qbheat_mf-285m_1xb256-amp'
                          '-coslr-400e_own-images.py')
    cfg.merge_from_dict(options)
    check_values(cfg)
