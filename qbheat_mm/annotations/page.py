# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Show prepared boxes on one page."""
import os.path as osp
from collections.abc import Mapping, Sequence
from io import BytesIO

from PIL import Image, ImageDraw

from ..datasets.images import read_image
from ..datasets.selection import spread
from ..report import Report, Table, command_line, render_page
from ..report.style import COLORS
from .records import ListedImage

#: Longer side of a picture, in pixels.
_SIDE = 400


def render_boxes(title: str, tables: Sequence[Table],
                 parts: Mapping[str, Sequence[ListedImage]],
                 names: Sequence[str]) -> str:
    """Render the page: tables, and some images with their boxes."""
    labeled = []
    for images in parts.values():
        labeled += [image for image in images if image.boxes]
    files, pictures = [], []
    for image in spread(labeled, 12):
        content = BytesIO()
        _draw(image, names).save(content, 'PNG')
        files.append(f'{osp.basename(image.name)}.png')
        pictures.append(content.getvalue())
    report = Report(
        'boxes', 'Boxes', 'Images with their boxes, as training sees them.',
        list(tables), pictures=files, tiles=True,
        source=dict(command=command_line()))
    return render_page(title, 'What was prepared for training.',
                       [(report, pictures)])


def _draw(image: ListedImage, names: Sequence[str]) -> Image.Image:
    picture = Image.fromarray(read_image(image.file)[..., ::-1])
    scale = _SIDE / max(picture.size)
    picture = picture.resize([max(round(n * scale), 1) for n in picture.size])
    draw = ImageDraw.Draw(picture)
    for box in image.boxes:
        x, y, w, h = (value * scale for value in box.bbox)
        color = COLORS[names.index(box.label) % len(COLORS)]
        draw.rectangle((x, y, x + w, y + h), outline=color, width=2)
        draw.text((x + 3, y + 2), box.label, fill=color)
    return picture
