# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Show the reports on a run on one page."""
import base64
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from PIL import Image

from .report import Report, read_report

#: Analyses in the order of the page, after all others.
ORDER = ('reconstruction', 'heat_flow', 'spectrum', 'correlation',
         'attention')

# The text of figures is as large as the page's.
_PIXELS_PER_INCH = 110


def find_reports(folder: str) -> list[tuple[Report, list[bytes]]]:
    """Find the reports below a folder, with the content of their pictures.

    Raises:
        UserError: If a report is malformed.
        OSError: If a picture is missing or not a PNG file.
    """
    reports = []
    for file in sorted(Path(folder).rglob('*.json')):
        report = read_report(str(file)) if file.is_file() else None
        if report is None:
            continue
        pictures = []
        for name in report.pictures:
            Image.open(file.parent / name, formats=['PNG']).close()
            pictures.append((file.parent / name).read_bytes())
        reports.append((report, pictures))
    return reports


def render_page(title: str, introduction: str,
                reports: Sequence[tuple[Report, Sequence[bytes]]],
                reload: int | None = None) -> str:
    """Render reports as one HTML page.

    Args:
        title, introduction (str): Headline and first paragraph.
        reports (Sequence[tuple[Report, Sequence[bytes]]]): Each with the
            content of its pictures, PNG.
        reload (int, optional): Seconds between reloads by the browser.

    Returns:
        str: HTML that needs no other file.
    """
    sections = []
    for report, pictures in sorted(reports, key=_rank):
        shown = []
        for name, content in zip(report.pictures, pictures):
            shown.append(dict(
                name=name, width=_page_width(content),
                data=base64.b64encode(content).decode()))
        sections.append((report, shown))
    pages = Environment(loader=PackageLoader(__package__), autoescape=True,
                        undefined=StrictUndefined)
    return pages.get_template('story.html').render(
        title=title, introduction=introduction, sections=sections,
        reload=reload)


def _rank(section: tuple[Report, Sequence[bytes]]) -> int:
    """The place of a report on the page."""
    name = section[0].analysis
    return ORDER.index(name) if name in ORDER else -1


def _page_width(content: bytes) -> int:
    """Width of a PNG file on the page, from its resolution if known."""
    with Image.open(BytesIO(content)) as picture:
        dpi = picture.info.get('dpi', (_PIXELS_PER_INCH, ))[0]
        return round(picture.width / dpi * _PIXELS_PER_INCH)
