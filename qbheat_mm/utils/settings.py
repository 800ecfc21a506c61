# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What all settings of mmengine have in common."""
from collections.abc import Mapping

from mmengine.config.utils import MODULE2PACKAGE
from mmengine.registry import MODELS


def type_name(settings: Mapping) -> str:
    """The name of the class or function that settings ask for.

    Args:
        settings (Mapping): Settings of a part. Their ``type`` is a name,
            alone or after its scope or module, or the class itself, as in
            configurations of the new style.

    Returns:
        str: Without scope or module; ``''`` where there is no ``type``.
    """
    kind = settings.get('type') or ''
    return getattr(kind, '__name__', str(kind)).split('.')[-1]


def toolbox(cfg: Mapping) -> str | None:
    """The toolbox that a configuration is for.

    Returns:
        str | None: As ``'mmdet'``: the default scope or, in configurations
        of the new style, the package of the model's class; None if neither
        is there.
    """
    if cfg.get('default_scope'):
        return cfg['default_scope']
    model = cfg.get('model')
    kind = model.get('type') if isinstance(model, Mapping) else None
    name = kind if isinstance(kind, str) else getattr(kind, '__module__', '')
    return name.split('.')[0] if name and '.' in name else None


def backbone_settings(cfg: Mapping) -> dict:
    """What builds the backbone of a configuration in another program.

    Args:
        cfg (Mapping): With ``model.backbone``.

    Returns:
        dict: Without weights and what is frozen; with the scope of its
        ``type`` where that is not in the root registry.
    """
    given = cfg['model']['backbone']
    alone = {key: value for key, value in given.items() if key not in (
        'init_cfg', 'frozen_stages', 'norm_eval', '_scope_')}
    kind = alone.get('type')
    if not isinstance(kind, str) or kind in MODELS.module_dict:
        return alone
    scope = kind.split('.')[0]
    if scope not in MODULE2PACKAGE:
        scope = given.get('_scope_') or toolbox(cfg) or 'mmpretrain'
    return {**alone, '_scope_': scope}
