# Copyright (c) QB-Heat MM authors. All rights reserved.
"""How many classes the folders of one's own data hold."""
import os.path as osp

from mmengine.config import Config
from mmpretrain.datasets.custom import find_folders
from mmpretrain.registry import DATASETS

from ...errors import UserError
from ..head_classes import set_classes

_LOADERS = ('train_dataloader', 'val_dataloader', 'test_dataloader')


def count_classes(cfg: Config) -> str:
    """Set ``model.head.num_classes`` to the number of folders of classes.

    They are counted in the training set or, on a machine without it, in that
    of validation or test.

    Args:
        cfg (Config): Of a classifier on mmpretrain's ``CustomDataset``.
            Changed in place.

    Returns:
        str: What was counted, for the log.

    Raises:
        UserError: If there are no folders, or one only.
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
    """The first folder of the data loaders that exists, and those in it."""
    folders = []
    for name in _LOADERS:
        settings = (cfg.get(name) or {}).get('dataset')
        if settings:
            dataset = DATASETS.build(
                dict(settings, pipeline=[], lazy_init=True))
            folders.append(dataset.img_prefix)
    for folder in folders:
        if osp.isdir(folder):
            return folder, find_folders(folder)[0]
    raise UserError(
        f"there is no folder of classes '{folders[0] if folders else ''}': "
        'give its place with --cfg-options '
        'train_dataloader.dataset.data_root=PATH')
