# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Masks of objects: polygons, or run lengths of the picture's size."""
import math
from collections.abc import Sequence
from typing import Any

from .columns import written
from .report import DROPPED, MENDED, STOPS, Report
from .structure import Images

_WAY_OUT = ('give each object a segmentation, a list of polygons [x1, y1, x2, '
            'y2, x3, y3, ...] or run lengths, or train a detector of boxes '
            'and evaluate these, val_evaluator.metric=bbox')


def check_masks(content: dict, images: Images, report: Report) -> None:
    """Leave out objects without a mask, or stop where these are the most.

    mmdet ends at the first object that has no ``segmentation``, and passes
    over those whose polygons it cannot read without a word.

    Args:
        content (dict): Of the file, with annotations that were checked;
            changed in place.
        images (Images): Of the file.
        report (Report): Gets what is found.
    """
    sizes = {record['id']: (record.get('height'), record.get('width'))
             for record in images.records}
    kept, wrong, mended = [], [], []
    for annotation in content['annotations']:
        value = annotation.get('segmentation')
        if isinstance(value, list) and not all(map(_is_polygon, value)):
            # COCO's evaluation ends at one that cannot be read.
            value = list(filter(_is_polygon, value))
            if value:
                mended.append(written(annotation.get('id')))
                annotation['segmentation'] = value
        fits = _is_mask(value, sizes.get(annotation['image_id']))
        (kept if fits else wrong).append(annotation)
    report.add(MENDED, 'objects have polygons that cannot be read, which are '
               'left out', len(mended), len(content['annotations']),
               f'as annotation id {"".join(mended[:1])}')
    if not wrong:
        return
    example = (f'as annotation id {written(wrong[0].get("id"))}: '
               f'segmentation={written(wrong[0].get("segmentation"))}')
    stops = len(wrong) > len(kept)
    report.add(STOPS if stops else DROPPED,
               'objects have no mask that can be read', len(wrong),
               len(kept) + len(wrong), example, _WAY_OUT if stops else '')
    content['annotations'] = kept


def _is_mask(value: Any, size: tuple | None) -> bool:
    """Whether mmdet and COCO's evaluation can read a mask."""
    if isinstance(value, dict):
        if not isinstance(value.get('size'), list | tuple) or tuple(
                value['size']) != size or None in size:
            return False
        # pycocotools takes what is in memory where runs are too short
        runs = value.get('counts')
        runs = _runs(runs) if isinstance(runs, str) else runs
        return (isinstance(runs, list) and all(map(_is_run, runs))
                and sum(runs) == size[0] * size[1])
    return isinstance(value, list) and bool(value)


def _is_run(value: Any) -> bool:
    return isinstance(value, int) and value >= 0


def _runs(text: str) -> list[int] | None:
    """Run lengths from the text that COCO writes of them; None if it is none.

    Six bits a character from '0' on: five of the number, the lowest first,
    and one that says that more follow. From the fourth on a number is the
    difference from that before the last.
    """
    runs, value, shift = [], 0, 0
    for character in text:
        bits = ord(character) - ord('0')
        if not 0 <= bits < 64:
            return None
        value |= (bits & 31) << shift
        shift += 5
        if not bits & 32:
            if bits & 16:  # it is negative
                value -= 1 << shift
            runs.append(value + (runs[-2] if len(runs) > 2 else 0))
            value = shift = 0
    return None if shift else runs


def _is_polygon(points: Sequence) -> bool:
    if not isinstance(points, list) or len(points) < 6 or len(points) % 2:
        return False
    try:
        return math.isfinite(sum(points))
    except TypeError:
        return False
