# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Encoders with published weights: timm's networks, frozen backbones."""
from collections.abc import Sequence

from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor

from ...errors import UserError


@MODELS.register_module()
class TimmEncoder(BaseModule):
    """A CNN of timm without its classifier.

    Outputs are those of timm's ``forward_intermediates``, one for each
    stride. The last one is that of ``forward_features``, and so includes the
    last 1x1 convolution of an EfficientNet.

    Args:
        name (str): Name in timm, e.g. ``'resnet18'``.
        out_indices (Sequence[int]): The outputs to return; negative indices
            count from the end. Defaults to (-1, ).
        init_cfg (dict, optional): Initialization; timm's if None.
        **options: Further arguments of ``timm.create_model``.

    Raises:
        UserError: If timm is missing.
    """

    def __init__(self,
                 name: str,
                 out_indices: Sequence[int] = (-1, ),
                 init_cfg: dict | None = None,
                 **options) -> None:
        super().__init__(init_cfg)
        try:
            import timm
        except ImportError as error:
            raise UserError(f"the network '{name}' is timm's: "
                            'pip install timm') from error
        self.network = timm.create_model(name, num_classes=0, **options)
        self.num_outputs = len(self.network.feature_info)
        self.out_indices = tuple(out_indices)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Images (B, 3, H, W) to maps (B, C, H / stride, W / stride)."""
        last, maps = self.network.forward_intermediates(x)
        # Some networks return a list, or channels last.
        if getattr(last, 'shape', ())[2:] == maps[-1].shape[2:]:
            maps[-1] = last
        return tuple(maps[i] for i in self.out_indices)


@MODELS.register_module()
class FrozenBackbone(BaseModule):
    """Any backbone, without gradients and always in eval mode.

    Args:
        network (dict): Config of the backbone.
        init_cfg (dict, optional): Its initialization.
        **options: Further settings of it, such as ``out_indices``.
    """

    def __init__(self, network: dict, init_cfg: dict | None = None,
                 **options) -> None:
        super().__init__()
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
