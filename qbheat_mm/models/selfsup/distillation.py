# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Control: predict the targets of the whole image that the encoder sees."""
import torch.nn.functional as F
from mmengine.registry import MODELS
from torch import Tensor, nn

from ...errors import UserError
from ..outputs import Outputs
from .self_supervisor import SelfSupervisor


@MODELS.register_module()
class Distillation(SelfSupervisor):
    """Distill a teacher: a linear layer predicts the teacher's features.

    The encoder sees the whole image, four times the cost of a quarter, and
    nothing is masked. Targets are compared with the smooth L1 loss, at all
    positions of the encoder's last map.

    Args:
        backbone (dict): Config of the encoder.
        target_generator (dict): Config of :class:`EncoderTarget`.
        in_channels (int, optional): Channels of the encoder's last map.
            Defaults to what it returns.
        out_channels (int, optional): Channels of the targets. Defaults to
            those of the target generator.
        **kwargs: See :class:`SelfSupervisor`.

    Raises:
        UserError: If the channels of the targets are unknown.
    """

    def __init__(self,
                 backbone: dict,
                 target_generator: dict,
                 in_channels: int | None = None,
                 out_channels: int | None = None,
                 **kwargs) -> None:
        super().__init__(backbone, target_generator, **kwargs)
        if in_channels is None:
            in_channels = Outputs.of(self.backbone).channels[-1]
            self.backbone.train()
        if out_channels is None:
            out_channels = self.target_generator.channels
        if out_channels is None:
            raise UserError('model.target_generator has unknown '
                            'channels: set model.out_channels')
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
