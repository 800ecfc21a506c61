# Copyright (c) QB-Heat MM authors. All rights reserved.
"""How many classes the folders of one's own data hold."""
import os.path as osp

from mmengine.config import Config
from mmpretrain.registry import DATASETS

from ...datasets.extensions import class_folders
from ...errors import UserError
from ..head_classes import set_classes

_LOADERS = ('train_dataloader', 'val_dataloader', 'test_dataloader')


def count_classes(cfg: Config) -> str:
    """Set ``model.head.num_classes`` to the number of folders of classes.

    They are counted in the training set or, on a machine without it, in that
    of validation or test. Of a list of images, the classes that it is given
    (``metainfo.classes``) are counted.

    Args:
        cfg (Config): Of a classifier on mmpretrain's ``CustomDataset``.
            Changed in place.

    Returns:
        str: What was counted, for the log.

    Raises:
        UserError: If there are no folders, or one only, or a list of
            images is given no names of classes.
    """
    folder, classes = _find_classes(cfg)
    if len(classes) < 2:
        raise UserError(
            f"'{folder}' has {len(classes)} folder"
            f'{"" if len(classes) == 1 else "s"}, and each class of images '
            'needs one: put the images of each class into a folder of its '
            'own there, two at least')
    set_classes(cfg, len(classes))
    return (f"{len(classes)} classes in '{folder}': "
            f'model.head.num_classes={len(classes)}')


def _find_classes(cfg: Config) -> tuple[str, list[str]]:
    """Where the first data set that is there has its classes, and which.

    Names that are given (``metainfo.classes``) are compared with the folders
    when the data set is read.
    """
    places = []
    for name in _LOADERS:
        settings = (cfg.get(name) or {}).get('dataset')
        if not settings:
            continue
        while 'dataset' in settings or 'datasets' in settings:  # a wrapper
            settings = (settings['dataset'] if 'dataset' in settings
                        else settings['datasets'][0])
        dataset = DATASETS.build(dict(settings, pipeline=[], lazy_init=True))
        place = dataset.ann_file or dataset.img_prefix
        places.append(place)
        if not osp.exists(place):
            continue
        if dataset.ann_file and not dataset.CLASSES:
            raise UserError(
                f"annotation file '{place}' numbers the classes: name them, "
                'in the order of the numbers, with --cfg-options '
                f"{name}.dataset.metainfo.classes=\"['first','second']\", and "
                'those of the other data sets')
        if dataset.ann_file:
            return place, list(dataset.CLASSES)
        if osp.isdir(place):
            return place, class_folders(place)
    raise UserError(
        f"there is no folder of classes '{places[0] if places else ''}': "
        'give its place with --cfg-options '
        'train_dataloader.dataset.data_root=PATH')
