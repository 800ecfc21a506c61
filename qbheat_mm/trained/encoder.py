# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Encoders with their weights, input normalization and pooling."""
from collections.abc import Mapping, Sequence

import torch
from mmengine.logging import print_log
from mmengine.registry import WEIGHT_INITIALIZERS
from torch import Tensor, nn

from ..errors import UserError
from .checkpoint import Checkpoint
from .normalization import Normalization, Normalize

POOLS = ('avg', 'token', 'avg+token', 'max')


class Encoder(nn.Module):
    """A pre-trained encoder in evaluation mode.

    Args:
        backbone (nn.Module): Backbone of mmpretrain or mmdet.
        normalization (Normalization): Normalization of its input.
        name (str): E.g. ``"MobileFormer(arch='mf-285m')"``. Defaults to the
            backbone's class.
        size (tuple[int, int], optional): Height and width of the training
            images, if known.
        settings (Mapping, optional): Arguments of ``MODELS.build`` for the
            backbone, if known.
        checkpoint (str): File of its weights; ``''`` for random weights.

    Attributes:
        backbone, normalization, name, size, settings, checkpoint: As given.
        normalize (Normalize): RGB images (B, 3, H, W), 0-255, to the input
            of :meth:`forward`.
    """

    def __init__(self,
                 backbone: nn.Module,
                 normalization: Normalization,
                 name: str = '',
                 size: tuple[int, int] | None = None,
                 settings: Mapping | None = None,
                 checkpoint: str = '') -> None:
        super().__init__()
        self.backbone = backbone
        self.normalization = normalization
        self.normalize = Normalize(normalization)
        self.name = name or type(backbone).__name__
        self.size = size
        self.settings = dict(settings or {})
        self.checkpoint = checkpoint
        self.eval()

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Encode normalized images, (B, 3, H, W).

        Returns:
            tuple[Tensor]: The backbone's outputs. For a ``MobileFormer``, by
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
            UserError: If ``pool`` is unknown, or the encoder lacks the
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
            reduce = torch.amax if pool == 'max' else torch.mean
            pooled = reduce(pooled, dim=(2, 3))
        return torch.cat([pooled, tokens[-1]], 1) if '+' in pool else pooled


@WEIGHT_INITIALIZERS.register_module()
class PretrainedEncoder:
    """Load every tensor of a backbone from a checkpoint, or fail.

    mmengine's ``Pretrained`` loads whatever fits, possibly nothing. This
    initializer finds the encoder in checkpoints of pre-training, probing,
    classification and detection, and in files of the encoder alone. It works
    for any backbone of mmpretrain and mmdet:
    ``init_cfg=dict(type='PretrainedEncoder', checkpoint=...)``.

    Args:
        checkpoint (str, optional): File or URL. None raises an error when
            weights are initialized, so that no run starts from random
            weights because of a forgotten setting. Defaults to None.
        allow_other_normalization (bool): Whether the encoder may get images
            normalized differently than in its training; checked by
            ``StrictLoadHook``. Defaults to False.
    """

    def __init__(self,
                 checkpoint: str | None = None,
                 allow_other_normalization: bool = False) -> None:
        self.checkpoint = checkpoint
        self.allow_other_normalization = allow_other_normalization

    def __call__(self, module: nn.Module) -> None:
        """Load the weights.

        Args:
            module (nn.Module): The backbone.

        Raises:
            UserError: If no checkpoint is set or it doesn't fit.
        """
        name = type(module).__name__
        if self.checkpoint is None:
            raise UserError(
                f'no encoder weights for {name}: set '
                '--cfg-options encoder=FILE, or '
                'model.backbone.init_cfg=None for random weights on purpose')
        Checkpoint.read_once(self.checkpoint).load_encoder(module)
        print_log(f'loaded {len(module.state_dict())} tensors of {name} from '
                  f'{self.checkpoint}', logger='current')
        # mmengine would call every child's init_weights afterwards, timm's
        # too, and backbones such as ResNet zero some weights unless init_cfg
        # says "Pretrained".
        for child in module.modules():
            child.is_init = True
        module.init_cfg = dict(type='Pretrained', checkpoint=self.checkpoint)
