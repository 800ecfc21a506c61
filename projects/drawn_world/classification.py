# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The demo's images with one object, as a data set of mmpretrain."""
from mmpretrain.datasets import CustomDataset
from mmpretrain.registry import DATASETS

from .data import SIZES, ensure_demo_data


@DATASETS.register_module()
class DemoClassification(CustomDataset):
    """One object per image; the images are drawn if necessary.

    Args:
        split (str): ``'train'``; ``'unlabeled'``, the same with the classes
            in turn; ``'labeled'``, the part of it for probes; or ``'val'``.
        sizes (str): A key of :data:`projects.drawn_world.data.SIZES`.
            Defaults to 'full'.
        **kwargs: See ``CustomDataset``.
    """

    def __init__(self, split: str, sizes: str = 'full', **kwargs) -> None:
        listed = split in ('labeled', 'unlabeled')
        super().__init__(
            data_root=str(ensure_demo_data(sizes) / 'classification'),
            data_prefix='train' if listed else split,
            ann_file=f'meta/{split}.txt' if listed else '',
            metainfo=dict(classes=SIZES[sizes].classes),
            **kwargs)
