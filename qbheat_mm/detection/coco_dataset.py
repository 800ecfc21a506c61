"""COCO-format data whose annotation file must hold the classes one names."""
from collections.abc import Sequence

from mmdet.datasets import CocoDataset
from mmdet.datasets.api_wrappers import COCO
from mmdet.registry import DATASETS

from qbheat_mm.errors import UserError


@DATASETS.register_module()
class MatchedCocoDataset(CocoDataset):
    """``CocoDataset`` that refuses categories which are not its classes.

    The parent drops annotations of unknown categories without a word, and
    numbers labels in the file's order, whatever the order of the classes. A
    forgotten ``metainfo`` then ends in an AP of 0, or in names that belong to
    other labels.

    Args:
        *args: Of ``CocoDataset``.
        allow_subset (bool): The file may hold more categories than the
            classes; the rest is dropped on purpose. Defaults to False.
        **kwargs: Of ``CocoDataset``.
    """

    def __init__(self, *args, allow_subset: bool = False, **kwargs) -> None:
        self.allow_subset = allow_subset
        super().__init__(*args, **kwargs)

    def COCOAPI(self, annotation_file: str) -> COCO:
        """Read the file and check it, where the parent only reads it.

        Raises:
            UserError: If its categories are not the classes.
        """
        coco = COCO(annotation_file)
        self._check_categories(
            [category['name'] for category in coco.dataset['categories']])
        return coco

    def _check_categories(self, categories: Sequence[str]) -> None:
        """Compare the file's categories, in its order, with the classes."""
        classes = list(self.metainfo['classes'])
        found = [
            name for name in categories
            if name in classes or not self.allow_subset
        ]
        if found == classes:
            return
        if sorted(found) == sorted(classes):
            problem = 'are the classes in another order'
            way_out = 'write the classes in the order of the file'
        else:
            problem = 'are not the classes'
            way_out = ("set metainfo=dict(classes=...) of the dataset to the "
                       "file's categories, and num_classes of the head to "
                       'their number')
            if set(classes) < set(categories):
                way_out += ', or allow_subset=True to leave the others out'
        raise UserError(
            f"the categories of annotation file '{self.ann_file}' {problem} "
            f'of the dataset: the file has {len(categories)}, '
            f'{list(categories)}; the classes are {len(classes)}, {classes}; '
            f'{way_out}')
