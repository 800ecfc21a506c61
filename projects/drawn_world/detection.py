# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The demo's images with several objects, as a data set of mmdet."""
from mmdet.registry import DATASETS

from qbheat_mm.detection import MatchedCocoDataset

from .data import SIZES, ensure_demo_data


@DATASETS.register_module()
class DemoDetection(MatchedCocoDataset):
    """A few objects per image; the images are drawn if necessary.

    Args:
        split (str): ``'train'`` or ``'val'``.
        sizes (str): A key of :data:`projects.drawn_world.data.SIZES`.
            Defaults to 'full'.
        **kwargs: See ``CocoDataset``.
    """

    METAINFO = dict(
        palette=[(230, 25, 75), (60, 180, 75), (255, 225, 25), (0, 130, 200),
                 (245, 130, 48), (145, 30, 180), (70, 240, 240),
                 (240, 50, 230)])

    def __init__(self, split: str, sizes: str = 'full', **kwargs) -> None:
        super().__init__(
            data_root=str(ensure_demo_data(sizes) / 'detection'),
            data_prefix=dict(img=f'{split}/'),
            ann_file=f'annotations/instances_{split}.json',
            metainfo=dict(classes=SIZES[sizes].classes),
            **kwargs)
