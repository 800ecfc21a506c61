# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Other losses of distillation, for trials."""
from collections.abc import Mapping

import torch.nn.functional as F
from mmengine.registry import MODELS
from torch import Tensor

from qbheat_mm.models import MultiScaleDistillation


@MODELS.register_module()
class TrialDistillation(MultiScaleDistillation):
    """Multi-scale distillation with another loss.

    Args:
        smooth_l1 (float): Weight of the smooth L1 loss. Defaults to 1.
        cosine (float): Weight of the cosine distance at each position.
            Defaults to 0.
        weights (Mapping[str, float]): Weights of the strides, such as
            ``{'8': 2.}``. Defaults to 1 each.
    """

    def __init__(self, *args, smooth_l1: float = 1., cosine: float = 0.,
                 weights: Mapping[str, float] | None = None, **kwargs
                 ) -> None:
        super().__init__(*args, **kwargs)
        self.smooth_l1, self.cosine = smooth_l1, cosine
        self.weights = weights or {}

    def compare(self, pred: Tensor, target: Tensor) -> Tensor:
        """See :class:`MultiScaleDistillation`."""
        similarity = F.cosine_similarity(pred, target, dim=-1).mean()
        return (self.smooth_l1 * super().compare(pred, target)
                + self.cosine * (1 - similarity))

    def loss(self, inputs: Tensor, data_samples: list | None = None
             ) -> dict[str, Tensor]:
        """See :class:`MultiScaleDistillation`."""
        losses = super().loss(inputs, data_samples)
        for stride, weight in self.weights.items():
            losses[f'loss_{stride}'] = weight * losses[f'loss_{stride}']
        return losses


@MODELS.register_module()
class DistillationWithQBHeat(MultiScaleDistillation):
    """Multi-scale distillation with QB-Heat's loss of pixels beside it.

    Args:
        backbone (dict): Config of the encoder of both.
        qbheat (dict): Config of :class:`QBHeat`, without an encoder.
    """

    def __init__(self, backbone: dict, *args, qbheat: dict, **kwargs) -> None:
        super().__init__(backbone, *args, **kwargs)
        self.qbheat = MODELS.build(dict(qbheat, backbone=backbone))
        # Shared, but not a submodule of both: optimizers want it once.
        del self.qbheat.backbone
        vars(self.qbheat)['backbone'] = self.backbone

    def loss(self, inputs: Tensor, data_samples: list | None = None
             ) -> dict[str, Tensor]:
        """See :class:`MultiScaleDistillation`."""
        losses = super().loss(inputs, data_samples)
        losses['loss_qbheat'] = self.qbheat.loss(inputs)['loss']
        return losses
