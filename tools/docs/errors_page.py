# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Write docs/errors.md: every message that tells a user what to mend.

The messages are read from the source; what stands beside some of them is in
``error_notes.yml``.
"""
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml
from messages import Message, collect

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / 'docs/errors.md'
NOTES = Path(__file__).with_name('error_notes.yml')
COMMAND = 'python tools/docs/errors_page.py'

HEAD = f"""\
# All messages

Made by `{COMMAND}` from the source.

What a user can mend ends in one line that names the value, the file or
setting, and the way out. Nearly all such lines are here, by the part of the
project that they come from; `{{words}}` in braces stand for what is known when
the program runs, and `...` for a list or an ending. Search for some words of
the message. `QBHEAT_TRACEBACK=1` before a command shows where a line came
from.

Any other exception, with a traceback, is a defect: please report it.
"""
#: Rooms in the order of the page: what a command meets first stands first.
ROOMS = {
    'launching': 'Command lines and configurations',
    'annotations': 'Annotation files',
    'datasets': 'Images and folders',
    'engine': 'Checkpoints, training and resuming',
    'models': 'Encoders, pre-training and probes',
    'layers': 'Layers',
    'detection': 'Detection',
    'apis': 'From Python',
    'evaluation': 'Embeddings and neighbours',
    'analysis': 'Analysis',
    'export': 'Export',
    'study': 'Study',
    'world': 'Drawn images',
    'demo': 'Demo',
    'utils': 'Files of images',
    '': 'Everywhere',
    'tools': 'Single tools',
    'tools/env': 'Making the environment',
}
#: How a message says what to do, or what would be right.
WAY_OUT = re.compile(
    r'(?:[:;.,(]|\bor|\band) (?:(?:or|then|first|only) )?(?:add|build|change|'
    r'check|choose|compare|convert|copy|correct|download|end|enlarge|export|'
    r'follow|free|give|go on|install|join|keep|leave|look|lower|make|mend|'
    r'name|number|pad|pip|put|raise|remove|rename|run|save|say|see|set|start|'
    r'take|train|use|write)\b|\bmust\b|is not (?:one of|between)|'
    r'says how to mend|: there are|known are|asks? for|left out$|build|'
    r'has its run ended|was the run evaluated|skips this check|'
    r'QBHEAT_TRACEBACK')


def room_of(file: str) -> str:
    """The part of the project that a file belongs to."""
    first, *folders = Path(file).parts[:-1]
    if first == 'tools':
        return 'tools/env' if folders == ['env'] else 'tools'
    return folders[0] if folders else ''


def notes_for(text: str, notes: dict[str, str]) -> Iterator[str]:
    """What stands beside a message."""
    return (note for part, note in notes.items() if part in text)


def without_way_out(messages: list[Message],
                    notes: dict[str, str]) -> list[Message]:
    """Messages that neither say what to do nor have a note that does."""
    return [message for message in messages
            if not WAY_OUT.search(message.text)
            and not any(notes_for(message.text, notes))]


def page(messages: list[Message], notes: dict[str, str]) -> str:
    """The whole page.

    Raises:
        KeyError: A part of the project has no heading here.
    """
    rooms = {room: [] for room in ROOMS}
    for message in messages:
        rooms[room_of(message.file)].append(message)
    lines = [HEAD]
    for room, heading in ROOMS.items():
        if rooms[room]:
            lines += [f'## {heading}', '', *_section(rooms[room], notes)]
    return '\n'.join(lines).rstrip() + '\n'


def _section(messages: list[Message],
             notes: dict[str, str]) -> Iterator[str]:
    """A room, file by file."""
    for file, own in itertools.groupby(messages, lambda each: each.file):
        yield from (f'[{file}](../{file})', '')
        for message in own:
            lines = [_quoted(message.text), *notes_for(message.text, notes)]
            yield '- ' + '\\\n  '.join(lines)
        yield ''


def _quoted(text: str) -> str:
    """A message as code, which may hold backquotes itself."""
    return f'`` {text} ``' if '`' in text else f'`{text}`'


def read_notes() -> dict[str, str]:
    return yaml.safe_load(NOTES.read_text(encoding='utf-8'))


def main() -> int:
    messages, notes = collect(ROOT), read_notes()
    lacking = without_way_out(messages, notes)
    for message in lacking:
        print(f'{message.file}:{message.line}: {message.text!r} names no way '
              f'out: name one, or add a note to {NOTES.relative_to(ROOT)}',
              file=sys.stderr)
    for part in notes:
        if not any(part in message.text for message in messages):
            print(f'{NOTES.relative_to(ROOT)}: no message holds {part!r}: '
                  'remove or correct it', file=sys.stderr)
            lacking.append(part)
    PAGE.write_text(page(messages, notes), encoding='utf-8')
    print(PAGE)
    return int(bool(lacking))


if __name__ == '__main__':
    sys.exit(main())
