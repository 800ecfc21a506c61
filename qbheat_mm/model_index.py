# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Our configurations in mmpretrain's list of models.

``mmpretrain.list_models`` and ``mmpretrain.get_model`` read the list of
mmpretrain's own models when they are first called. Ours is read then, too:
it takes a second, which an import should not.
"""
from pathlib import Path

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


def _register() -> None:
    """Read the index of the wheel or, without an installation, the source."""
    for root in (PACKAGE / '.mim', PACKAGE.parent):
        if (root / 'model-index.yml').is_file():
            ModelHub.register_model_index(
                root / 'model-index.yml', config_prefix=root)
            return
