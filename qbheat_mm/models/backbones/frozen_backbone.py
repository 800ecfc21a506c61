# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Freeze any backbone as a whole."""
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor

from ...errors import UserError


@MODELS.register_module()
class FrozenBackbone(BaseModule):
    """Any backbone, without gradients and always in eval mode.

    Args:
        network (dict): Config of the backbone.
        init_cfg (dict, optional): Its initialization.
        **options: Further settings of it, such as ``out_indices``.

    Raises:
        UserError: If ``frozen_stages`` asks to train a part of it.
    """

    def __init__(self, network: dict, init_cfg: dict | None = None,
                 **options) -> None:
        super().__init__()
        if 'frozen_stages' in options:
            raise UserError(
                'model.backbone.frozen_stages: the encoder of this config '
                'stays frozen: to train it, start from the config that the '
                'run started from, with encoder=FILE')
        self.network = MODELS.build(
            {**network, 'init_cfg': init_cfg, **options})
        self.out_indices = getattr(self.network, 'out_indices', None)
        self.requires_grad_(False)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs of the backbone for images (B, 3, H, W)."""
        return self.network(x)

    def train(self, mode: bool = True) -> 'FrozenBackbone':
        """Stay in eval mode."""
        return super().train(False)
