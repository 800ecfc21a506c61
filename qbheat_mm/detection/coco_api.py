# Copyright (c) QB-Heat MM authors. All rights reserved.
"""mmdet's index of annotations over content that was checked."""
from collections.abc import Sequence

from mmdet.datasets.api_wrappers import COCO


class NamedCategories(COCO):
    """mmdet's index, which gives categories in the order that is asked for."""

    def get_cat_ids(self, cat_names: Sequence[str] = (),
                    sup_names: Sequence[str] = (),
                    cat_ids: Sequence[int] = ()) -> list[int]:
        """Ids of categories.

        mmdet numbers labels as the ids come. Those of named categories come
        in the order of the names, where the parent's come in that of the
        file.
        """
        ids = super().get_cat_ids(list(cat_names), list(sup_names),
                                  list(cat_ids))
        places = {name: i for i, name in enumerate(cat_names)}
        return sorted(ids, key=lambda number: places.get(
            self.cats[number]['name'], len(places)))


def index(content: dict) -> COCO:
    """Index the content of an annotation file.

    Args:
        content (dict): As checked and mended by
            :func:`qbheat_mm.annotations.check_annotations`.
    """
    coco = NamedCategories()
    coco.dataset = content
    coco.createIndex()
    # mmdet sets its names for the two before there is an index.
    coco.img_ann_map, coco.cat_img_map = coco.imgToAnns, coco.catToImgs
    return coco
