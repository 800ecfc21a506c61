# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The page of all messages, and how they are read from the source."""
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / 'docs/errors.md').read_text(encoding='utf-8')


@pytest.fixture(scope='module')
def tool():
    sys.path.insert(0, str(ROOT / 'tools/docs'))
    try:
        import errors_page
    finally:
        sys.path.pop(0)
    return errors_page


@pytest.fixture(scope='module')
def messages(tool):
    return tool.collect(ROOT)


def texts(source, file='some.py'):
    import messages
    return sorted(each.text for each in messages.messages_of(source, file))


def test_the_page_is_of_this_code(tool, messages):
    if tool.page(messages, tool.read_notes()) != PAGE:
        shown = set(re.findall(r'^- `+ ?(.+?) ?`+\\?$', PAGE, re.M))
        new = [m.text for m in messages if m.text not in shown]
        pytest.fail(f'docs/errors.md is not of this code ({new[:1]}): '
                    f'{tool.COMMAND}', pytrace=False)


def test_every_message_names_a_way_out_or_has_a_note(tool, messages):
    lacking = tool.without_way_out(messages, tool.read_notes())
    assert not lacking, f'{tool.COMMAND} says what to do'


def test_every_note_has_its_message(tool, messages):
    for part in tool.read_notes():
        assert any(part in message.text for message in messages), part


def test_no_place_that_raises_is_forgotten(tool, messages):
    """But those that pass on what another has said."""
    import messages as module
    passed_on = {'tools/check_data.py': 1, 'tools/study/run.py': 1}
    for path in [*(ROOT / 'qbheat_mm').rglob('*.py'),
                 *(ROOT / 'tools').rglob('*.py')]:
        if '.mim' in path.parts:
            continue
        file = path.relative_to(ROOT).as_posix()
        told = {each.line for each in messages if each.file == file}
        untold = [line for line in module.raises(path.read_text())
                  if line not in told]
        # One text that two places of a file tell stands on the page once.
        again = [line for line in untold if texts_of(path, line) & {
            each.text for each in messages if each.file == file}]
        assert len(untold) - len(again) == passed_on.get(file, 0), (
            file, untold)


def texts_of(path, line):
    import messages
    return {each.text for each in messages.messages_of(
        path.read_text(), path.name) if each.line == line}


def test_a_new_message_is_noticed(tool, messages):
    new = tool.Message('qbheat_mm/models/layers/new.py', 1, 'the new is wrong')
    assert tool.page([*messages, new], tool.read_notes()) != PAGE
    assert tool.without_way_out([new], {}) == [new]
    assert not tool.without_way_out([new], {'new is': 'Take the old.'})
    with pytest.raises(KeyError):  # a room without a heading
        tool.page([tool.Message('qbheat_mm/cellar/new.py', 1, '')], {})


@pytest.mark.parametrize('source, said', [
    ("raise UserError('plain: give another')", ['plain: give another']),
    ("raise UserError(f'{len(names)} of {self.path!r}: {type(e).__name__}')",
     ['{number} of {path}: {class}']),
    ("def f(x):\n  why = f'no {x}'\n  raise UserError(f'{why}: add it')",
     ['no {x}: add it']),
    ("raise UserError(f'one{\", two\" if more else \"\"}: end')",
     ['one...: end']),
    ("def fail(what, how='stop'):\n  raise UserError(f'{what}: {how}')\n"
     "fail('a', 'go')\nfail('b', how='stay')", ['a: go', 'b: stay']),
    ("def f(x):\n  raise UserError(f'x={x!r} is no y')\nf('a')",
     ['x={x} is no y']),
    ("def why(e):\n  if e: return f'bad {e}: mend it'\n  return 'none'\n"
     'raise UserError(why(e))', ['bad {e}: mend it', 'none']),
    ("report.add(STOPS, 'boxes lie', 3, 4, 'as this', 'mend them')",
     ['boxes lie: mend them']),
    ("report.add(DROPPED, 'boxes are thin', 3)",
     ['boxes are thin; left out']),
    ("parser.error('--a or --b')", ['--a or --b']),
    ('raise UserError(str(error))', []),
    ("raise ValueError('a defect')", []),
])
def test_reading_of_sources(tool, source, said):
    assert texts(source) == said
