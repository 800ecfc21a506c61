"""Classification decoders (Section "Decoder Probing"), and that of V1.

They take two outputs of the backbone: the features of the last 1x1
convolution, (B, C, H, W), and the tokens, (B, T, d).
"""
import torch
import torch.nn.functional as F
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor, nn

from ...errors import UserError
from ..layers.transformer import transformer_blocks


@MODELS.register_module()
class PoolWithToken(BaseModule):
    """Average the pixels and append the first token ("pool", "concat").

    912, 1696 and 3136 channels for the paper's encoders.
    """

    def forward(self, feats: tuple[Tensor, Tensor]) -> tuple[Tensor]:
        """Features and tokens to ((B, C + d),)."""
        pixels, tokens = _pixels_and_tokens(feats)
        return (torch.cat([pixels.mean(dim=(2, 3)), tokens[:, 0]], dim=1), )


@MODELS.register_module()
class TransformerProbe(BaseModule):
    """The ``tran-k`` decoder: k transformer blocks, then average pooling.

    Pixels and tokens are projected to one width, attend to each other, and
    are averaged together.

    Args:
        in_channels (int): Channels C of the features.
        token_dims (int): Width d of the tokens.
        embed_dims (int): Width of the blocks: 192, 384 and 768 in the
            paper.
        depth (int): Number k of blocks: 1 for probing, 1 or 4 for
            fine-tuning. Defaults to 1.
        num_heads (int, optional): Attention heads. Defaults to None, one per
            64 channels.
        mlp_ratio (int): Hidden width of the MLP over embed_dims. Defaults
            to 4.
        drop_rate (float): Dropout before the classifier. Defaults to 0.
        init_cfg (dict, optional): Initialization; a truncated normal if None.
    """

    def __init__(self,
                 in_channels: int,
                 token_dims: int,
                 embed_dims: int,
                 depth: int = 1,
                 num_heads: int | None = None,
                 mlp_ratio: int = 4,
                 drop_rate: float = 0.,
                 init_cfg: dict | None = None) -> None:
        super().__init__(
            init_cfg or dict(type='TruncNormal', layer='Linear', std=.02))
        num_heads = num_heads or max(embed_dims // 64, 1)
        self.pixel_proj = nn.Linear(in_channels, embed_dims)
        self.token_proj = nn.Linear(token_dims, embed_dims)
        self.blocks = transformer_blocks(
            embed_dims, depth, num_heads, mlp_ratio)
        self.norm = nn.LayerNorm(embed_dims, eps=1e-6)
        self.drop = nn.Dropout(drop_rate)

    def forward(self, feats: tuple[Tensor, Tensor]) -> tuple[Tensor]:
        """Features and tokens to ((B, embed_dims),)."""
        pixels, tokens = _pixels_and_tokens(feats)
        pixels = self.pixel_proj(pixels.permute(0, 2, 3, 1).flatten(1, 2))
        x = torch.cat([pixels, self.token_proj(tokens)], dim=1)
        x = self.norm(self.blocks(x)).mean(dim=1)
        return (self.drop(x), )


@MODELS.register_module()
class MobileFormerV1Neck(BaseModule):
    """Pool, append the first token, apply one hidden layer.

    h-swish follows both the pooling and the hidden layer; dropout is last.

    Args:
        in_channels (int): Channels C of the features.
        token_dims (int): Width d of the tokens.
        mid_channels (int): Width of the hidden layer.
        drop_rate (float): Dropout before the classifier. Defaults to 0.
        init_cfg (dict, optional): Initialization; the authors' if None.
    """

    def __init__(self,
                 in_channels: int,
                 token_dims: int,
                 mid_channels: int,
                 drop_rate: float = 0.,
                 init_cfg: dict | None = None) -> None:
        super().__init__(
            init_cfg or dict(type='Normal', layer='Linear', std=.01))
        self.fc = nn.Linear(in_channels + token_dims, mid_channels)
        self.norm = nn.BatchNorm1d(mid_channels)
        self.drop = nn.Dropout(drop_rate)

    def forward(self, feats: tuple[Tensor, Tensor]) -> tuple[Tensor]:
        """Features (B, C, H, W) and tokens (B, T, d) to ((B, mid), )."""
        pixels, tokens = feats
        pooled = F.hardswish(pixels.mean(dim=(2, 3)))
        x = self.fc(torch.cat([pooled, tokens[:, 0]], dim=1))
        return (self.drop(F.hardswish(self.norm(x))), )


def _pixels_and_tokens(feats: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Check that a backbone gives features and tokens.

    Raises:
        UserError: Otherwise, with the shapes.
    """
    if len(feats) != 2 or (feats[0].ndim, feats[1].ndim) != (4, 3):
        given = ', '.join(str(tuple(each.shape)) for each in feats)
        raise UserError(
            f'this decoder needs features (B, C, H, W) and tokens (B, T, d), '
            f'but model.backbone gives {given}. Set model.backbone.out_indices'
            '=(-2, -1) for MobileFormer; for an encoder without tokens, '
            "model.neck=[{'type':'GlobalAveragePooling'},"
            "{'type':'ClsBatchNormNeck','input_features':C}] and "
            'model.head.in_channels=C')
    return feats
