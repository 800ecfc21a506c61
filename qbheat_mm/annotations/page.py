# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Show prepared boxes on one page."""
from collections.abc import Mapping, Sequence
from io import BytesIO

import numpy as np
from PIL import Image, ImageDraw

from ..datasets.images import read_image, spread
from ..report import Report, Table, command_line, tell
from ..report.style import COLORS
from .export import Account, Picture

_SIDE, _COLUMNS = 320, 4


def summarize(parts: Mapping[str, Sequence[Picture]], names: Sequence[str],
              account: Account) -> list[Table]:
    """Account for all images and boxes."""
    total = Table('Images and boxes', ['', 'in', 'left out', *parts])
    for kind, numbers in (
            ('images', [*map(len, parts.values())]),
            ('boxes', [sum(len(each.boxes) for each in pictures)
                       for pictures in parts.values()])):
        lost = sum(number for (each, _), (number, _) in account.items()
                   if each == f'{kind} left out')
        total.rows.append([kind, sum(numbers) + lost, lost, *numbers])
    boxes = Table('Boxes, and how many are small (below 32x32 pixels), medium '
                  'or large (from 96x96 on)',
                  ['class', *parts, 'small', 'medium', 'large'])
    for name in names:
        sides = [[(box.bbox[2] * box.bbox[3])**0.5 for each in pictures
                  for box in each.boxes if box.label == name]
                 for pictures in parts.values()]
        sizes = np.digitize(sum(sides, []), [32, 96])
        boxes.rows.append([name, *map(len, sides),
                           *np.bincount(sizes, minlength=3).tolist()])
    strange = Table('Put right and left out', ['number', 'of', 'why', 'e.g.'],
                    [[number, kind, what, example]
                     for (kind, what), (number, example) in account.items()])
    return [total, boxes, strange] if strange.rows else [total, boxes]


def tell_boxes(title: str, tables: Sequence[Table],
               pictures: Sequence[Picture], names: Sequence[str]) -> str:
    """Write the page: tables, and a sheet of images with their boxes."""
    shown = spread([each for each in pictures if each.boxes], 12)
    sheet = Image.new('RGB', (
        _COLUMNS * _SIDE, -(-len(shown) // _COLUMNS) * _SIDE), 'white')
    for i, picture in enumerate(shown):
        image = Image.fromarray(read_image(picture.file)[..., ::-1])
        scale = (_SIDE - 8) / max(image.size)
        image = image.resize([max(round(n * scale), 1) for n in image.size])
        draw = ImageDraw.Draw(image)
        for box in picture.boxes:
            x, y, w, h = (value * scale for value in box.bbox)
            color = COLORS[names.index(box.label) % len(COLORS)]
            draw.rectangle((x, y, x + w, y + h), outline=color, width=2)
            draw.text((x + 3, y + 2), box.label, fill=color)
        sheet.paste(image, (i % _COLUMNS * _SIDE, i // _COLUMNS * _SIDE))
    content = BytesIO()
    sheet.save(content, 'PNG')
    report = Report(
        'boxes', 'Boxes', 'Images with their boxes, as training sees them.',
        list(tables), pictures=['sheet.png'],
        source=dict(command=command_line()))
    return tell(title, 'What was prepared for training.',
                [(report, [content.getvalue()])])
