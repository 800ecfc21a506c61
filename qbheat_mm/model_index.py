# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Our configurations in mmpretrain's list of models.

``mmpretrain.list_models`` and ``mmpretrain.get_model`` read the list of
mmpretrain's own models when they are first called. Ours is read then, too:
it takes a second, which an import should not.
"""
from pathlib import Path
from typing import Any

from mmpretrain.apis.model import ModelHub

PACKAGE = Path(__file__).parent


def register_with_mmpretrain() -> None:
    """Let mmpretrain's hub read our index after its own, once."""
    own_models = getattr(ModelHub, '_register_mmpretrain_models', None)
    if own_models is None:  # another version: no need to be lazy
        _register()
        return

    def register_all(cls) -> None:
        ModelHub._register_mmpretrain_models = own_models
        own_models()
        _register()

    ModelHub._register_mmpretrain_models = classmethod(register_all)


def name_toolboxes() -> None:
    """Let mmpretrain's hub build models of other toolboxes, too, once.

    It looks for all types among its own, and so finds some of mmdet's, by
    their bases, and others not.
    """
    own_get = getattr(ModelHub, 'get', None)
    if own_get is None or hasattr(own_get, 'names_toolboxes'):
        return

    def get(cls, model_name: str) -> Any:
        found = own_get(model_name)
        cfg = found.config
        scope = cfg and cfg.get('default_scope')
        if scope not in (None, 'mmpretrain') and cfg.get('model'):
            cfg.model.setdefault('_scope_', scope)
        return found

    get.names_toolboxes = True
    ModelHub.get = classmethod(get)


def find_config(name: str) -> str | None:
    """The file of one of our configurations.

    Args:
        name (str): As ``'qbheat_mf-285m_8xb128-amp-coslr-100e_in1k'``.

    Returns:
        str | None: None where there is none of that name.
    """
    root = _root()
    found = [] if root is None or '/' in name else sorted(
        file for file in (root / 'configs').rglob('*.py')
        if file.stem == name and '_base_' not in file.parts)
    return str(found[0]) if found else None


def _register() -> None:
    root = _root()
    if root is not None:
        ModelHub.register_model_index(
            root / 'model-index.yml', config_prefix=root)


def _root() -> Path | None:
    """Where the index is, of the wheel or, not installed, of the source."""
    return next((root for root in (PACKAGE / '.mim', PACKAGE.parent)
                 if (root / 'model-index.yml').is_file()), None)
