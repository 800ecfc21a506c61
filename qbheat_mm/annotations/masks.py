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
        return (isinstance(value.get('counts'), list | str)
                and isinstance(value.get('size'), list | tuple)
                and tuple(value['size']) == size)
    return isinstance(value, list) and bool(value)


def _is_polygon(points: Sequence) -> bool:
    if not isinstance(points, list) or len(points) < 6 or len(points) % 2:
        return False
    try:
        return math.isfinite(sum(points))
    except TypeError:
        return False
