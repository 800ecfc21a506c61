# Copyright (c) QB-Heat MM authors. All rights reserved.
"""One page that tells what a run has learned, from its reports."""
import base64
from collections.abc import Callable, Sequence
from io import BytesIO

from jinja2 import Environment, PackageLoader, StrictUndefined
from PIL import Image

#: Analyses in the order of the story; others follow as they are given.
ORDER = ('reconstruction', 'heat_flow', 'spectrum', 'correlation',
         'attention')

#: Pixels of the page for an inch of a figure, so that all letters have the
#: size of the text's.
_PIXELS_PER_INCH = 110


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

    def draw(report: dict, name: str) -> dict:
        content = read_picture(report, name)
        return dict(width=_page_width(content),
                    data=base64.b64encode(content).decode())

    pages = Environment(loader=PackageLoader(__package__), autoescape=True,
                        undefined=StrictUndefined)
    return pages.get_template('story.html').render(
        title=title, introduction=introduction, reports=reports, draw=draw,
        reload=reload)


def in_order(reports: Sequence[dict]) -> list[dict]:
    """Reports outside :data:`ORDER` first, then those in its order."""
    rank = {name: i for i, name in enumerate(ORDER)}
    return sorted(reports, key=lambda report: rank.get(report['analysis'], -1))


def _page_width(content: bytes) -> int:
    """Width on the page of a PNG file that may say its resolution."""
    with Image.open(BytesIO(content)) as picture:
        dpi = picture.info.get('dpi', (_PIXELS_PER_INCH, ))[0]
        return round(picture.width / dpi * _PIXELS_PER_INCH)
