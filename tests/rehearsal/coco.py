# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Draw images and annotations with the shape of COCO 2017.

What is published about it:

- images have 59x72 to 640x640 pixels, 640x480 in the median, and boxes
  begin at one pixel (datasets_readme/coco.md in github.com/Y-dnh/
  de_introduction); 90 % have a ratio of 0.6 to 1.5;
- 1,021 of 118,287 training images have no objects
  (github.com/cocodataset/cocoapi/issues/76);
- 10,498 of 896,782 annotations are crowds, with a mask in run lengths
  (github.com/cocodataset/cocoapi/issues/117);
- 99 % of the images have 1 to 33 objects, in the median 4
  (stig.sh/Lextal/SotA-CV, datasets/coco_detection.md);
- the ids of 80 classes of things go to 90, those of 53 of stuff to 200.

The first images are the unusual ones, so that a short run meets them: 90
objects and a crowd, objects of a pixel and at the borders, none, gray, tiny.
"""
import json
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from .imagenet import Drawing, save

SIZES = ((640, 480), (480, 640), (640, 427), (427, 640), (640, 640),
         (500, 375), (640, 360), (220, 190))
SHARES = (0.42, 0.17, 0.16, 0.08, 0.04, 0.06, 0.05, 0.02)
#: Ids of things and of stuff.
THINGS = sorted(set(range(1, 91))
                - {12, 26, 29, 30, 45, 66, 68, 69, 71, 83})
STUFF = (92, 93, 95, 100, 107, 109, 112, 118, 119, 122, 125, 128, 130, 133,
         138, 141, 144, 145, 147, 148, 149, 151, 154, 155, 156, 159, 161, 166,
         168, 171, 175, 176, 177, 178, 180, 181, *range(184, 201))


class CocoDrawing(Drawing):
    """Draws the images and annotations of a split.

    Args:
        seed (int): Seed of the random numbers.
        folder (Path): Folder of the images, which is made.
        ids (Sequence[int]): Ids of the classes.
    """

    def __init__(self, seed: int, folder: Path, ids: Sequence[int]) -> None:
        super().__init__(seed)
        self.folder, self.ids = folder, ids
        self.images: list[dict] = []
        self.objects: list[dict] = []
        folder.mkdir(parents=True)

    def draw(self, count: int) -> None:
        """Draw images, the unusual ones first."""
        unusual = [(640, 480, 90, 1), (480, 640, 6, 0), (640, 427, 0, 0),
                   (640, 480, 2, 0), (72, 59, 1, 0)]
        for width, height, objects, crowds in unusual[:count]:
            self.draw_image(width, height, objects, crowds)
        for _ in range(count - len(unusual)):
            width, height = SIZES[self.random.choice(len(SIZES), p=SHARES)]
            objects = self.random.lognormal(np.log(4), 0.9)
            objects = int(np.clip(objects, 1, 33))
            if self.random.random() < 0.009:
                objects = 0
            crowds = int(self.random.random() < 0.012 * objects)
            self.draw_image(width, height, objects, crowds)

    def draw_image(self, width: int, height: int, objects: int,
                   crowds: int) -> None:
        """Draw an image and annotate it."""
        number = len(self.images) + 1
        pixels = self.window(width, height)
        image = dict(id=37 * number, file_name=f'{37 * number:012}.jpg',
                     width=width, height=height)
        self.images.append(image)
        for index in range(objects):
            x, y, w, h = self.box(width, height, index)
            outline = self.outline(x, y, w, h)
            cv2.fillPoly(pixels, [outline.astype(np.int32)],
                         self.random.integers(0, 256, 3).tolist())
            self.annotate(image, (x, y, w, h), [outline.ravel().tolist()],
                          float(cv2.contourArea(outline)))
        for _ in range(crowds):
            self.annotate_crowd(image)
        kind = 'gray' if number == 4 else 'plain'
        save(pixels, kind, self.folder / image['file_name'])

    def box(self, width: int, height: int,
            index: int) -> tuple[float, float, float, float]:
        """Draw x, y, width and height; the second image's are extreme."""
        if len(self.images) == 2:
            extreme = ((0, 0, 1, 1), (width - 1, height - 1, 1, 1),
                       (0, 0, width, height), (width / 2, 0, 1, height),
                       (0, height - 20.5, width, 20.5), (9.6, 7.3, 1.2, 1.4))
            return extreme[index]
        w, h = np.exp(self.random.uniform(np.log(4), np.log(
            (width, height)))).round(2)
        x, y = self.random.uniform(0, (width - w, height - h)).round(2)
        return float(x), float(y), float(w), float(h)

    def outline(self, x: float, y: float, w: float, h: float) -> np.ndarray:
        """Return a polygon that fills a box, (N, 2), float32."""
        if min(w, h) < 4:
            corners = (x, y), (x + w, y), (x + w, y + h), (x, y + h)
            return np.array(corners, np.float32)
        angles = np.linspace(0, 2 * np.pi, 16, endpoint=False)
        circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return ((circle + 1) / 2 * (w, h) + (x, y)).astype(np.float32)

    def annotate(self, image: dict, box: Sequence[float],
                 segmentation: list | dict, area: float,
                 iscrowd: int = 0) -> None:
        """Add an object of a random class."""
        self.objects.append(dict(
            id=len(self.objects) + 1, image_id=image['id'],
            category_id=int(self.random.choice(self.ids)), bbox=[*box],
            segmentation=segmentation, area=area, iscrowd=iscrowd))

    def annotate_crowd(self, image: dict) -> None:
        """Add a crowd, a mask in uncompressed run lengths."""
        height, width = image['height'], image['width']
        mask = np.zeros((height, width), np.uint8)
        mask[height // 3:height // 2, width // 8:-width // 8:2] = 1
        flat = np.concatenate([[0], mask.ravel(order='F'), [0]])
        ends = np.flatnonzero(np.diff(flat))
        runs = np.diff([0, *ends, height * width])
        box = cv2.boundingRect(mask)
        self.annotate(image, box, dict(counts=runs.tolist(),
                                       size=[height, width]),
                      int(mask.sum()), iscrowd=1)

    def write(self, path: Path, names: Sequence[str]) -> None:
        """Write the annotation file."""
        categories = []
        for number, name in zip(self.ids, names, strict=True):
            categories.append(dict(id=number, name=name))
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(dict(
            images=self.images, annotations=self.objects,
            categories=categories)))

    def write_panoptic(self, path: Path, names: Sequence[str]) -> None:
        """Write the panoptic annotation file and its folder of segments."""
        path.with_suffix('').mkdir()
        categories = []
        for number, name in zip([*THINGS, *STUFF], names, strict=True):
            categories.append(dict(id=number, name=name,
                                   isthing=int(number in THINGS)))
        annotations = []
        for image in self.images:
            file = f'{image["id"]:012}.png'
            ids, segments = self.segments(image)
            channels = np.stack([ids & 255, ids >> 8 & 255, ids >> 16], -1)
            cv2.imwrite(str(path.with_suffix('') / file),
                        channels[..., ::-1].astype(np.uint8))
            annotations.append(dict(image_id=image['id'], file_name=file,
                                    segments_info=segments))
        path.write_text(json.dumps(dict(
            images=self.images, annotations=annotations,
            categories=categories)))

    def segments(self, image: dict) -> tuple[np.ndarray, list[dict]]:
        """Return the id of each pixel's segment, and the segments.

        Two kinds of stuff lie behind the objects; some pixels have none.
        """
        ids = np.zeros((image['height'], image['width']), np.int32)
        classes = {}
        for part in range(2):
            number = 1 + part
            ids[part * 200:part * 200 + 180] = number
            classes[number] = int(self.random.choice(STUFF))
        for each in self.objects:
            if each['image_id'] == image['id'] and not each['iscrowd']:
                number = 1000 * each['id']
                polygon = np.reshape(each['segmentation'], (-1, 2))
                cv2.fillPoly(ids, [polygon.astype(np.int32)], number)
                classes[number] = each['category_id']
        segments = []
        for number, category in classes.items():
            mask = (ids == number).astype(np.uint8)
            if mask.any():
                segments.append(dict(
                    id=number, category_id=category, area=int(mask.sum()),
                    bbox=[*cv2.boundingRect(mask)], iscrowd=0))
        return ids, segments


def draw_coco(root: Path, count: int, things: Sequence[str],
              all_names: Sequence[str]) -> None:
    """Draw COCO's folders; validation has a tenth of the images.

    Args:
        root (Path): The folder, which is made.
        count (int): Training images.
        things (Sequence[str]): Names of the 80 classes.
        all_names (Sequence[str]): These and the 53 classes of stuff.
    """
    for seed, (split, number) in enumerate(
            (('train2017', count), ('val2017', count // 10))):
        drawing = CocoDrawing(seed, root / split, THINGS)
        drawing.draw(number)
        annotations = root / 'annotations'
        drawing.write(annotations / f'instances_{split}.json', things)
        drawing.write_panoptic(
            annotations / f'panoptic_{split}.json', all_names)


def draw_own(root: Path, count: int, names: Sequence[str]) -> None:
    """Draw images and boxes in the layout of docs/own_data.md."""
    for seed, (split, number) in enumerate(
            (('train', count), ('val', count // 10))):
        drawing = CocoDrawing(seed, root / 'images' / split,
                              range(1, len(names) + 1))
        drawing.draw(number)
        for image in drawing.images:
            image['file_name'] = f'{split}/{image["file_name"]}'
        drawing.write(root / f'annotations/{split}.json', names)
