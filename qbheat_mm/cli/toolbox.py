# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Which toolbox a configuration is for."""
from collections.abc import Mapping

from mmengine.config import Config


def toolbox(cfg: Config) -> str | None:
    """The default scope or, where there is none, the model's package.

    New-style configurations name classes instead of scopes.

    Returns:
        str | None: As ``'mmdet'``; None if nothing says so.
    """
    if cfg.get('default_scope'):
        return cfg['default_scope']
    model = cfg.get('model')
    kind = model.get('type') if isinstance(model, Mapping) else None
    name = kind if isinstance(kind, str) else getattr(kind, '__module__', '')
    return name.split('.')[0] if name and '.' in name else None
