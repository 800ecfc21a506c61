# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Count the classes of a config's data."""
from mmengine.config import Config
from mmengine.registry import DATASETS, DefaultScope

from ..datasets.wrappers import parts_of
from ..errors import UserError
from ..utils.settings import set_classes


def count_classes(cfg: Config) -> int:
    """Set the number of classes of a classifier from its data.

    Args:
        cfg (Config): Changed in place.

    Returns:
        int: Classes of the first data set that exists.

    Raises:
        UserError: If there are fewer than two, or an annotation file gives
            no names.
    """
    missing = None
    for name in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
        settings = (cfg.get(name) or {}).get('dataset')
        if not settings:
            continue
        try:
            with DefaultScope.overwrite_default_scope('mmpretrain'):
                dataset = DATASETS.build(settings)
        # Tests may run where the training set is not available.
        except (FileNotFoundError, UserError) as error:
            missing = missing or error
            continue
        number = len(parts_of(dataset)[0].metainfo.get('classes') or ())
        if number < 2:
            raise UserError(
                f'{name}.dataset ({settings.get("data_root", "")}) has '
                f'{number} classes, and at least 2 are needed: a folder for '
                'each class, or metainfo.classes for an annotation file')
        set_classes(cfg, number)
        return number
    raise UserError(f'cannot count classes: no data set found ({missing})')
