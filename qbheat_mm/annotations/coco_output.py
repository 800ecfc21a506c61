# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Write prepared boxes in COCO format."""
import os
import os.path as osp
from collections.abc import Mapping, Sequence
from pathlib import Path

import cv2
import msgspec
import numpy as np

from ..datasets.coco_check import load_coco
from .account import Account, Kind
from .records import Box, ListedImage


def write_coco(folder: str, parts: Mapping[str, Sequence[ListedImage]],
               classes: Sequence[str], root: str, masks: bool,
               account: Account) -> None:
    """Write ``annotations/SPLIT.json``, and read it as training does.

    Args:
        folder (str): Where to.
        parts (Mapping[str, Sequence[ListedImage]]): The images by split.
        classes (Sequence[str]): The classes, in their order.
        root (str): Folder that the names of images are relative to.
        masks (bool): Whether to write masks.
        account (Account): Counts the warnings.
    """
    os.makedirs(osp.join(folder, 'annotations'))
    numbers = {name: i for i, name in enumerate(classes, 1)}
    categories = [dict(id=i, name=name) for name, i in numbers.items()]
    for split, images in parts.items():
        records, annotations = [], []
        for i, image in enumerate(images, 1):
            width, height = image.size
            records.append(dict(id=i, width=width, height=height,
                                file_name=osp.relpath(image.file, root)))
            for box in image.boxes:
                annotation = dict(
                    id=len(annotations) + 1, image_id=i,
                    category_id=numbers[box.label], bbox=box.bbox,
                    area=area(box), iscrowd=int(box.crowd))
                if masks:
                    annotation['segmentation'] = box.mask or []
                annotations.append(annotation)
        name = f'annotations/{split}.json'
        Path(folder, name).write_bytes(msgspec.json.encode(dict(
            images=records, categories=categories, annotations=annotations)))
        _, report = load_coco(osp.join(folder, name), classes,
                              require_masks=masks, name=name)
        for warning in report.warnings:
            account.note(Kind.WARNING, f'{split}: {warning}')


def area(box: Box) -> float:
    """Return the area of a box's mask in pixels; of the box without one."""
    whole = box.bbox[2] * box.bbox[3]
    if not box.mask:
        return whole
    if isinstance(box.mask, dict):
        if isinstance(box.mask['counts'], list):
            return float(sum(box.mask['counts'][1::2]))
        from pycocotools import mask  # of mmdet's requirements
        return float(mask.area(box.mask))
    total = 0.
    for points in box.mask:
        total += cv2.contourArea(np.float32(points).reshape(-1, 2))
    # The box was clipped to the image, and outlines may cross themselves.
    return min(total, whole) if total else whole
