# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What all pre-training models share."""
from abc import ABCMeta, abstractmethod

import torch
from mmengine.model import BaseModel
from mmpretrain.registry import MODELS as MMPRETRAIN_MODELS
from torch import Tensor, nn

from ..layers.autocast import cast_at_once
from .targets import build_target_generator


class SelfSupervisor(BaseModel, metaclass=ABCMeta):
    """An encoder, ``backbone``, that learns without labels.

    Only the encoder is kept after pre-training. The interface is that of
    mmpretrain's ``BaseSelfSupervisor``, which is not inherited: importing it
    imports mmdet and mmcv's compiled ops.

    Args:
        backbone (dict): Config of the encoder.
        target_generator (dict, optional): What to predict: mmpretrain's
            ``HOGGenerator`` or :class:`EncoderTarget`. Defaults to None,
            pixels.
        data_preprocessor (dict, optional): Defaults to mmpretrain's
            ``SelfSupDataPreprocessor``.
        init_cfg (dict, optional): Initialization of the whole model.
    """

    def __init__(self,
                 backbone: dict,
                 target_generator: dict | None = None,
                 data_preprocessor: dict | nn.Module | None = None,
                 init_cfg: dict | None = None) -> None:
        if not isinstance(data_preprocessor, nn.Module):
            data_preprocessor = MMPRETRAIN_MODELS.build({
                'type': 'SelfSupDataPreprocessor',
                **(data_preprocessor or {})})
        super().__init__(data_preprocessor, init_cfg)
        self.backbone = MMPRETRAIN_MODELS.build(backbone)
        self.target_generator = build_target_generator(target_generator)
        self._compiled = False

    def compile(self, *args, **kwargs) -> None:
        """Compile the encoder on a GPU.

        On a CPU generating code for the encoder's many shapes takes longer
        than it saves. Arguments are those of ``torch.compile``.
        """
        if next(self.parameters()).is_cuda:
            self.backbone.compile(*args, **kwargs)
        self._compiled = True

    def forward(self,
                inputs: Tensor,
                data_samples: list | None = None,
                mode: str = 'tensor'
                ) -> dict[str, Tensor] | tuple[Tensor, ...]:
        """Compute losses or features, as mmengine's runner expects.

        Args:
            inputs (Tensor): Images, (B, 3, H, W).
            data_samples (list, optional): Their crops, for targets that
                depend on them.
            mode (str): ``'loss'``, or ``'tensor'`` for the encoder's
                features of the whole images.

        Returns:
            dict[str, Tensor] | tuple[Tensor]: Losses or features.
        """
        if mode == 'loss':
            return self.loss(inputs, data_samples)
        if mode == 'tensor':
            return self.extract_feat(inputs)
        raise RuntimeError(f"mode={mode!r} is neither 'loss' nor 'tensor'")

    def extract_feat(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """Return the backbone's features of whole images (B, 3, H, W)."""
        return self.backbone(inputs)

    @abstractmethod
    def loss(self,
             inputs: Tensor,
             data_samples: list | None = None) -> dict[str, Tensor]:
        """Compute the pre-training loss of images (B, 3, H, W)."""

    def _run(self, part: nn.Module, kind: type[nn.Module], *inputs):
        """Run a part; compiled ones cast their weights themselves."""
        if self._compiled or torch.compiler.is_compiling():
            return part(*inputs)
        return cast_at_once(part, kind, *inputs)
