"""The classifier of Mobile-Former V1, up to its last linear layer."""
import torch
import torch.nn.functional as F
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor, nn


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
