# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Where a classifier's configuration says how many classes there are."""
from mmengine.config import Config


def set_classes(cfg: Config, number: int) -> None:
    """Write the number of classes wherever a classifier wants it.

    Args:
        cfg (Config): Changed in place.
        number (int): Of classes.
    """
    model = cfg.model.get('module', cfg.model)  # test-time augmentation
    for part in (model.head, model.get('data_preprocessor'),
                 cfg.get('data_preprocessor')):
        if part and 'num_classes' in part:
            part.num_classes = number
