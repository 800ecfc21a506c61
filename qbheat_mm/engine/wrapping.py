# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Models in wrappers."""
from mmengine.model import BaseTTAModel, is_model_wrapper
from torch import nn


def unwrap(model: nn.Module) -> nn.Module:
    """The model in wrappers, as of several processes or of `--tta`."""
    while is_model_wrapper(model) or isinstance(model, BaseTTAModel):
        model = model.module
    return model
