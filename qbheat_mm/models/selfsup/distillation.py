# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Control: predict the targets of the whole image that the encoder sees."""
import torch.nn.functional as F
from mmengine.registry import MODELS
from torch import Tensor, nn

from ...errors import UserError
from .self_supervisor import SelfSupervisor


@MODELS.register_module()
class Distillation(SelfSupervisor):
    """Distill a teacher: a linear layer maps the features to its own.

    The encoder sees the whole image, four times the cost of a quarter, and
    nothing is masked. Targets are compared with the smooth L1 loss, at all
    positions of the encoder's last map.

    Args:
        backbone (dict): Config of the encoder.
        target_generator (dict): Config of :class:`EncoderTarget`.
        in_channels (int): Channels of the encoder's last map.
        out_channels (int): Channels of the targets.
        **kwargs: See :class:`SelfSupervisor`.
    """

    def __init__(self,
                 backbone: dict,
                 target_generator: dict,
                 in_channels: int,
                 out_channels: int,
                 **kwargs) -> None:
        super().__init__(backbone, target_generator, **kwargs)
        self.proj = nn.Linear(in_channels, out_channels)

    def loss(self,
             inputs: Tensor,
             data_samples: list | None = None) -> dict[str, Tensor]:
        """Compute the loss of images (B, 3, H, W).

        Raises:
            UserError: If the channels differ from the settings.
        """
        feats = self._run(self.backbone, nn.Conv2d, inputs)[-1]
        target = self.target_generator(inputs, data_samples, feats.shape[2:])
        for name, given, channels in (
                ('in_channels', self.proj.in_features, feats.shape[1]),
                ('out_channels', self.proj.out_features, target.shape[2])):
            if given != channels:
                raise UserError(f'model.{name}={given} must be {channels}')
        pred = self.proj(feats.flatten(2).transpose(1, 2))
        return dict(loss=F.smooth_l1_loss(pred, target))
