# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Show prepared boxes on one page."""
from collections.abc import Sequence
from io import BytesIO

from PIL import Image, ImageDraw

from ..analysis.report import Report, Table, command_line
from ..analysis.story import tell
from ..analysis.style import COLORS
from ..datasets.find import spread
from ..datasets.images import read_image
from .export import Picture

_SIDE, _COLUMNS = 320, 4


def tell_boxes(title: str, tables: Sequence[Table],
               pictures: Sequence[Picture], classes: Sequence[str]) -> str:
    """Write the page: tables, and a sheet of images with their boxes."""
    report = Report('boxes', title, 'Boxes are small below 32x32 pixels and '
                    'large from 96x96 pixels on; dashed lines of the table '
                    'are empty.', list(tables), pictures=['sheet.png'],
                    source=dict(command=command_line()))
    return tell(title, 'What training will see.',
                [(report, [_sheet(pictures, classes)])])


def _sheet(pictures: Sequence[Picture], classes: Sequence[str]) -> bytes:
    shown = spread([each for each in pictures if each.boxes], 12)
    rows = -(-len(shown) // _COLUMNS)
    sheet = Image.new('RGB', (_COLUMNS * _SIDE, rows * _SIDE), 'white')
    for i, picture in enumerate(shown):
        image = Image.fromarray(read_image(picture.file)[..., ::-1])
        scale = (_SIDE - 8) / max(image.size)
        image = image.resize([max(round(n * scale), 1) for n in image.size])
        draw = ImageDraw.Draw(image)
        for box in picture.boxes:
            x, y, w, h = (value * scale for value in box.bbox)
            color = COLORS[classes.index(box.label) % len(COLORS)]
            draw.rectangle((x, y, x + w, y + h), outline=color, width=2)
            draw.text((x + 3, y + 2), box.label, fill=color)
        sheet.paste(image, (i % _COLUMNS * _SIDE, i // _COLUMNS * _SIDE))
    content = BytesIO()
    sheet.save(content, 'PNG')
    return content.getvalue()
