# Copyright (c) QB-Heat MM authors. All rights reserved.
"""One page that tells what a run has learned, from its reports."""
import base64
from collections.abc import Callable, Sequence
from html import escape
from io import BytesIO

from PIL import Image

#: Analyses in the order of the story; others follow as they are given.
ORDER = ('reconstruction', 'heat_flow', 'spectrum', 'correlation',
         'attention')

#: Pixels of the page for an inch of a figure, so that all letters have the
#: size of the text's.
_PIXELS_PER_INCH = 110

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; margin: 2em auto;
       max-width: 62em; padding: 0 1em; }
h1, h2 { line-height: 1.2; }
h2 { border-top: 1px solid #ccc; padding-top: 1em; margin-top: 2em; }
img { max-width: 100%; height: auto; }
figure { margin: 1em 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .5em 0 1.5em; font-size: .9em; }
caption { text-align: left; font-weight: 600; padding: .3em 0; }
th, td { border-bottom: 1px solid #ddd; padding: .2em .8em .2em 0;
         text-align: left; vertical-align: top; }
td.number { font-variant-numeric: tabular-nums; }
code { background: #f3f3f3; padding: .1em .3em; overflow-wrap: anywhere; }
@media print { h2 { break-before: page; } body { max-width: none; } }
"""


def tell(title: str, introduction: str, reports: Sequence[dict],
         read_picture: Callable[[dict, str], bytes],
         reload: int | None = None) -> str:
    """Write the page.

    Args:
        title (str): Headline.
        introduction (str): A paragraph.
        reports (Sequence[dict]): As :meth:`Report.as_json` gives them, in
            the order of the story.
        read_picture (Callable): From a report and the name of one of its
            pictures to the content of the PNG file.
        reload (int, optional): Seconds after which a browser shows the page
            anew. Defaults to None, never.

    Returns:
        str: HTML that needs no other file.
    """
    contents = ''.join(
        f'<li><a href="#part{i}">{escape(report["title"])}</a></li>'
        for i, report in enumerate(reports))
    parts = ''.join(
        _part(i, report, read_picture) for i, report in enumerate(reports))
    again = '' if reload is None else (
        f'<meta http-equiv="refresh" content="{reload}">\n')
    return (f'<!DOCTYPE html>\n<html lang="en">\n<head>\n'
            '<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width">\n'
            f'{again}'
            f'<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n'
            f'</head>\n<body>\n<h1>{escape(title)}</h1>\n'
            f'<p>{escape(introduction)}</p>\n<ul>{contents}</ul>\n'
            f'{parts}</body>\n</html>\n')


def in_order(reports: Sequence[dict]) -> list[dict]:
    """Reports outside :data:`ORDER` first, then those in its order."""
    rank = {name: i for i, name in enumerate(ORDER)}
    return sorted(reports, key=lambda report: rank.get(report['analysis'], -1))


def _part(number: int, report: dict, read_picture: Callable) -> str:
    pictures = ''.join(
        _picture(name, report['title'], read_picture(report, name))
        for name in report['pictures'])
    tables = ''.join(map(_table, report['tables']))
    command = report['source'].get('command')
    command = f'<p>Made by <code>{escape(command)}</code></p>\n' if (
        command) else ''
    return (f'<h2 id="part{number}">{escape(report["title"])}</h2>\n'
            f'<p>{escape(report["caption"])}</p>\n{pictures}{tables}{command}')


def _picture(name: str, title: str, content: bytes) -> str:
    data = base64.b64encode(content).decode()
    alt = escape(f'{title}: {name}')
    return (f'<figure><img width="{_page_width(content)}" alt="{alt}" '
            f'src="data:image/png;base64,{data}"></figure>\n')


def _page_width(content: bytes) -> int:
    """Width on the page of a PNG file that may say its resolution."""
    with Image.open(BytesIO(content)) as picture:
        dpi = picture.info.get('dpi', (_PIXELS_PER_INCH, ))[0]
        return round(picture.width / dpi * _PIXELS_PER_INCH)


def _table(table: dict) -> str:
    head = ''.join(f'<th>{escape(str(name))}</th>'
                   for name in table['columns'])
    rows = ''.join(f'<tr>{"".join(map(_cell, row))}</tr>\n'
                   for row in table['rows'])
    return (f'<div class="scroll"><table><caption>{escape(table["title"])}'
            f'</caption>\n<tr>{head}</tr>\n{rows}</table></div>\n')


def _cell(value) -> str:
    if isinstance(value, float):
        return f'<td class="number">{value:.4g}</td>'
    return f'<td>{escape(str(value))}</td>'
