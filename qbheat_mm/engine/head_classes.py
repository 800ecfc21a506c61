# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The number of classes of a classifier's config."""
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmpretrain.registry import DATASETS

from ..errors import UserError

_LOADERS = ('train_dataloader', 'val_dataloader', 'test_dataloader')


def count_classes(cfg: Config) -> int:
    """Set the number of classes to that of the first data set that exists.

    Args:
        cfg (Config): Of a classifier, changed in place.

    Returns:
        int: Number of classes.

    Raises:
        UserError: If there are fewer than two, or an annotation file gives
            no names.
    """
    first = None
    for name in _LOADERS:
        settings = (cfg.get(name) or {}).get('dataset')
        if not settings:
            continue
        try:
            with DefaultScope.overwrite_default_scope('mmpretrain'):
                dataset = DATASETS.build(settings)
        # Tests may run where the training set isn't.
        except (FileNotFoundError, UserError) as error:
            first = first or error
            continue
        classes = dataset.metainfo.get('classes') or ()
        if len(classes) < 2:
            raise UserError(
                f'{name}.dataset ({settings.get("data_root", "")}) has '
                f'{len(classes)} classes, and at least 2 are needed: a folder '
                'for each class, or metainfo.classes for an annotation file')
        set_classes(cfg, len(classes))
        return len(classes)
    raise UserError(f'no data set to count classes in: {first}')


def set_classes(cfg: Config, number: int) -> None:
    """Write the number of classes wherever a classifier wants it.

    Args:
        cfg (Config): Changed in place.
        number (int): Number of classes.
    """
    model = cfg.model.get('module', cfg.model)  # test-time augmentation
    for part in (model.head, model.get('data_preprocessor'),
                 cfg.get('data_preprocessor')):
        if part and 'num_classes' in part:
            part.num_classes = number
