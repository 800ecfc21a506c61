# Copyright (c) QB-Heat MM authors. All rights reserved.
"""An export that is written by hand, and what it states."""
import json
from pathlib import Path

import pytest

from qbheat_mm.apis import prepare_boxes
from qbheat_mm.errors import UserError

from ..helpers.exports import (
    CAT,
    DOG,
    HEIGHT,
    SIZE,
    WIDTH,
    voc_object,
    write_image,
    write_labelme,
    write_voc,
    yolo_line,
)
from .oracle.read_back import (
    Triple,
    assert_equal_boxes,
    fingerprint,
    read_boxes,
)


class Export:
    """A folder of images, and what it states of them."""

    def __init__(self, root: Path) -> None:
        self.root = root / 'export'
        self.out = root / 'out'
        self.triples, self.images = [], set()
        self.seed = 0

    def image(self, path: str, *objects: tuple) -> None:
        """Write an image, and remember what is on it."""
        print_ = self.unlisted(path)
        self.images.add(('', print_))
        for label, *box in objects:
            self.triples.append(Triple('', print_, label, tuple(box)))

    def unlisted(self, path: str) -> str:
        """Write an image that must not be in the output."""
        self.seed += 1
        write_image(self.root / path, self.seed)
        return fingerprint(self.root / path)

    def text(self, path: str, text: str, encoding='utf-8') -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode(encoding))

    def coco(self, objects: dict, change=None) -> None:
        """Write labels.json with the objects of each listed name."""
        ids = dict(cat=1, dog=2)
        content = dict(images=[], annotations=[], categories=[
            dict(id=number, name=name) for name, number in ids.items()])
        for number, (name, items) in enumerate(objects.items()):
            content['images'].append(dict(
                id=number, file_name=name, width=WIDTH, height=HEIGHT))
            for label, *box in items:
                content['annotations'].append(dict(
                    id=len(content['annotations']), image_id=number,
                    category_id=ids[label], bbox=box))
        if change:
            change(content)
        self.text('labels.json', json.dumps(content))

    def yolo(self, path: str, *objects: tuple, names=('cat', 'dog'),
             more='') -> None:
        self.text(path, ''.join(
            yolo_line(names.index(label), *box, more)
            for label, *box in objects))

    def pairs(self, names=('cat', 'dog'), more='') -> None:
        """Four images of both classes with YOLO's label files."""
        for stem in ('one', 'two', 'three', 'four'):
            objects = [(names[0], *CAT[1:]), (names[1], *DOG[1:])]
            self.image(f'images/{stem}.jpg', *objects)
            self.yolo(f'labels/{stem}.txt', *objects, names=names, more=more)

    def voc(self, path: str, filename: str, *objects: tuple, size=SIZE,
            extra='', source='') -> None:
        write_voc(self.root / path, filename, 0, source + ''.join(
            voc_object(*each, extra) for each in objects), size)

    def labelme(self, path: str, image: str, *shapes: dict) -> None:
        write_labelme(self.root / path, image, shapes)

    def check(self):
        """Prepare boxes, and compare all of them."""
        report = prepare_boxes(str(self.root), str(self.out))
        assert_equal_boxes((self.triples, self.images), read_boxes(self.out),
                           False)
        return report

    def refuse(self, match: str, **options) -> None:
        with pytest.raises(UserError, match=match) as error:
            prepare_boxes(str(self.root), str(self.out), **options)
        assert '\n' not in str(error.value)
        assert not self.out.exists()


@pytest.fixture
def export(tmp_path):
    return Export(tmp_path)
