# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The demo's images with one object, as a data set of mmpretrain."""
from mmpretrain.datasets import CustomDataset
from mmpretrain.registry import DATASETS

from . import CLASSES
from .data import ensure_demo_data


@DATASETS.register_module()
class DemoClassification(CustomDataset):
    """One large object per image; the images are drawn if necessary.

    Args:
        split (str): ``'train'``, for pre-training; ``'labelled'``, the part of
            it that probes learn from; or ``'val'``.
        sizes (str): A key of :data:`projects.drawn_world.data.SIZES`.
            Defaults to 'full'.
        **kwargs: See ``CustomDataset``.
    """

    METAINFO = dict(classes=CLASSES)

    def __init__(self, split: str, sizes: str = 'full', **kwargs) -> None:
        labelled = split == 'labelled'
        super().__init__(
            data_root=str(ensure_demo_data(sizes) / 'classification'),
            data_prefix='train' if labelled else split,
            ann_file='meta/labelled.txt' if labelled else '',
            **kwargs)
