# Copyright (c) QB-Heat MM authors. All rights reserved.
"""mmdet's index of annotations over content that was checked."""
from mmdet.datasets.api_wrappers import COCO


def index(content: dict) -> COCO:
    """Index the content of an annotation file.

    Args:
        content (dict): As checked and mended by
            :func:`qbheat_mm.annotations.check_annotations`.
    """
    coco = COCO()
    coco.dataset = content
    coco.createIndex()
    # mmdet sets its names for the two before there is an index.
    coco.img_ann_map, coco.cat_img_map = coco.imgToAnns, coco.catToImgs
    return coco
