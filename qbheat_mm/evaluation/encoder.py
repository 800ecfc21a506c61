# Copyright (c) QB-Heat MM authors. All rights reserved.
"""An encoder with its input normalization and pooling."""
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from ..errors import UserError
from ..models.layers.normalize import Normalization, Normalize

POOLS = ('avg', 'token', 'avg+token', 'max')


class Encoder(nn.Module):
    """A pre-trained encoder in evaluation mode.

    Args:
        backbone (nn.Module): Of mmpretrain or mmdet, with its weights.
        normalization (Normalization): Of its input.
        name (str): As ``"MobileFormer(arch='mf-285m')"``.
        size (tuple[int, int], optional): Height and width of the training
            images, if known.
        settings (Mapping, optional): What ``MODELS.build`` builds the
            backbone from, if known.
        weights (str): The file of its weights; ``''`` for random weights.

    Attributes:
        backbone, normalization, name, size, settings, weights: As given.
        normalize (Normalize): RGB images (B, 3, H, W), 0-255, to the input
            of :meth:`forward`.
    """

    def __init__(self,
                 backbone: nn.Module,
                 normalization: Normalization,
                 name: str = '',
                 size: tuple[int, int] | None = None,
                 settings: Mapping | None = None,
                 weights: str = '') -> None:
        super().__init__()
        self.backbone = backbone
        self.normalization = normalization
        self.normalize = Normalize(normalization)
        self.name = name or type(backbone).__name__
        self.size = size
        self.settings = dict(settings or {})
        self.weights = weights
        self.eval()

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Encode normalized images, (B, 3, H, W).

        Returns:
            tuple[Tensor]: The backbone's outputs; of a ``MobileFormer``, by
            default, the last features, (B, C, h, w), and the tokens,
            (B, T, d).
        """
        outs = self.backbone(images)
        return tuple(outs) if isinstance(outs, tuple | list) else (outs, )

    def pool(self, outs: Sequence[Tensor], pool: str = 'avg') -> Tensor:
        """Pool the outputs to one vector per image.

        Args:
            outs (Sequence[Tensor]): Outputs of :meth:`forward`.
            pool (str): ``'avg'`` or ``'max'`` of the last features,
                ``'token'`` for the first token, or ``'avg+token'`` for both,
                as in the ``lin`` probe. Defaults to 'avg'.

        Returns:
            Tensor: (B, D).

        Raises:
            UserError: If there is no such pooling, or the encoder lacks the
                features or tokens.
        """
        if pool not in POOLS:
            raise UserError(f'pool={pool!r} is unknown: give one of '
                            f'{", ".join(POOLS)}')
        tokens = [out[:, 0] for out in outs if out.ndim == 3]
        if 'token' in pool and not tokens:
            raise UserError(f'pool={pool!r}: {self.name} has no tokens; use '
                            "pool='avg' or 'max'")
        if pool == 'token':
            return tokens[-1]
        features = [out for out in outs if out.ndim in (2, 4)]
        if not features:
            raise UserError(f'pool={pool!r}: {self.name} has no features '
                            "(B, C, H, W); use pool='token'")
        pooled = features[-1]
        if pooled.ndim == 4:  # some backbones pool by themselves
            pooled = (pooled.amax if pool == 'max' else pooled.mean)(
                dim=(2, 3))
        return torch.cat([pooled, tokens[-1]], 1) if '+' in pool else pooled
