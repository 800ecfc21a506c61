# Copyright (c) QB-Heat MM authors. All rights reserved.
"""One page that shows the reports on a run."""
import base64
from collections.abc import Sequence
from io import BytesIO

from jinja2 import Environment, PackageLoader, StrictUndefined
from PIL import Image

from .report import Report

#: Analyses in the order of the page, after all others.
ORDER = ('reconstruction', 'heat_flow', 'spectrum', 'correlation',
         'attention')

#: Pixels of the page for an inch of a figure, so that letters in figures have
#: the size of the text's.
_PIXELS_PER_INCH = 110


def tell(title: str, introduction: str,
         reports: Sequence[tuple[Report, Sequence[bytes]]],
         reload: int | None = None) -> str:
    """Write the page.

    Args:
        title (str): Headline.
        introduction (str): A paragraph.
        reports (Sequence[tuple[Report, Sequence[bytes]]]): Each with the
            content of its pictures, PNG.
        reload (int, optional): Seconds after which a browser reloads the
            page. Defaults to None, never.

    Returns:
        str: HTML that needs no other file.
    """
    rank = {name: i for i, name in enumerate(ORDER)}
    sections = [
        (report.as_json(), [
            dict(name=name, width=_page_width(content),
                 data=base64.b64encode(content).decode())
            for name, content in zip(report.pictures, pictures)])
        for report, pictures in sorted(
            reports, key=lambda pair: rank.get(pair[0].analysis, -1))]
    pages = Environment(loader=PackageLoader(__package__), autoescape=True,
                        undefined=StrictUndefined)
    return pages.get_template('story.html').render(
        title=title, introduction=introduction, sections=sections,
        reload=reload)


def _page_width(content: bytes) -> int:
    """Width on the page of a PNG file, which may tell its resolution."""
    with Image.open(BytesIO(content)) as picture:
        dpi = picture.info.get('dpi', (_PIXELS_PER_INCH, ))[0]
        return round(picture.width / dpi * _PIXELS_PER_INCH)
