# Copyright (c) QB-Heat MM authors. All rights reserved.
"""An encoder that knows its pixels and gives vectors."""
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from ..engine.origin import Pixels
from ..errors import UserError

POOLS = ('avg', 'token', 'avg+token', 'max')


class Encoder(nn.Module):
    """A pre-trained encoder in evaluation mode, which knows its pixels.

    Args:
        backbone (nn.Module): Of mmpretrain or mmdet, with its weights.
        pixels (Pixels): Mean, deviation and channel order that it was
            trained with.
        name (str): As ``"MobileFormer(arch='mf-285m')"``.
        size (tuple[int, int], optional): Height and width of the images that
            it was trained on, where that is known.
        settings (Mapping, optional): What ``MODELS.build`` makes the
            backbone of, where that is known.
        weights (str): The file that its weights come from; '' for random
            ones.

    Attributes:
        backbone, pixels, name, size, settings, weights: As given.
    """

    def __init__(self,
                 backbone: nn.Module,
                 pixels: Pixels,
                 name: str = '',
                 size: tuple[int, int] | None = None,
                 settings: Mapping | None = None,
                 weights: str = '') -> None:
        super().__init__()
        self.backbone = backbone
        self.pixels = pixels
        self.name = name or type(backbone).__name__
        self.size = size
        self.settings = dict(settings or {})
        self.weights = weights
        for key, values in (('mean', pixels.mean or [0.]),
                            ('std', pixels.std or [1.])):
            self.register_buffer(key, torch.tensor(values).view(-1, 1, 1),
                                 persistent=False)
        self.eval()

    def normalize(self, images: Tensor) -> Tensor:
        """From pictures to what :meth:`forward` expects.

        Args:
            images (Tensor): RGB, 0 to 255, (B, 3, H, W).

        Returns:
            Tensor: In the encoder's channel order, normalized, float32.
        """
        images = images.to(self.mean)
        images = images if self.pixels.rgb else images.flip(1)
        return (images - self.mean) / self.std

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Encode normalized images, (B, 3, H, W), see the backbone.

        Returns:
            tuple[Tensor]: The backbone's outputs. Of a ``MobileFormer``,
            unless :func:`load_encoder` was told otherwise, these are the
            last features, (B, C, h, w), and the tokens, (B, T, d).
        """
        outs = self.backbone(images)
        return outs if isinstance(outs, tuple) else tuple(outs) if isinstance(
            outs, list) else (outs, )

    def pool(self, outs: Sequence[Tensor], pool: str = 'avg') -> Tensor:
        """One vector for each image.

        Args:
            outs (Sequence[Tensor]): What :meth:`forward` has given.
            pool (str): ``'avg'`` or ``'max'`` of the last features over the
                image, ``'token'``, the first one, or ``'avg+token'``, both
                in a row, as the ``lin`` probe takes them. Defaults to 'avg'.

        Returns:
            Tensor: (B, D).

        Raises:
            UserError: If there is no such pooling, or the encoder has no
                tokens.
        """
        if pool not in POOLS:
            raise UserError(f'pool={pool!r} is unknown: give one of '
                            f'{", ".join(POOLS)}')
        maps = [out for out in outs if out.ndim == 4]
        tokens = [out[:, 0] for out in outs if out.ndim == 3]
        vectors = [out for out in outs if out.ndim == 2]
        if 'token' in pool and not tokens:
            raise UserError(f'pool={pool!r}: {self.name} gives no tokens; '
                            "take pool='avg' or 'max'")
        if pool == 'token':
            return tokens[-1]
        if maps:
            pooled = (maps[-1].amax if pool == 'max' else maps[-1].mean)(
                dim=(2, 3))
        elif vectors:  # backbones that pool by themselves
            pooled = vectors[-1]
        else:
            raise UserError(f'pool={pool!r}: {self.name} gives no features '
                            "(B, C, H, W); take pool='token'")
        return torch.cat([pooled, tokens[-1]], 1) if '+' in pool else pooled
