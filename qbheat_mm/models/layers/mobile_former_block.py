"""The Mobile-Former block: Mobile->Former, Former, Mobile, Former->Mobile."""
import torch.nn.functional as F
from mmcv.cnn.bricks import DropPath
from torch import Tensor, nn

from .bridge import FormerToMobile, MobileToFormer
from .dynamic_relu import DynamicReLUCoefficients
from .mobile import DownsampleMobile, Mobile


class Former(nn.Module):
    """Self-attention and MLP of the tokens, post-norm (V1).

    Only query and output are projected; keys and values are the tokens.

    Args:
        token_dims (int): Width d of the tokens.
        num_heads (int): Attention heads. Defaults to 4.
        mlp_ratio (int): Hidden width over d. Defaults to 2.
        drop_path_rate (float): Stochastic depth. Defaults to 0.
    """

    def __init__(self,
                 token_dims: int,
                 num_heads: int = 4,
                 mlp_ratio: int = 2,
                 drop_path_rate: float = 0.) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(token_dims, token_dims)
        self.proj = nn.Linear(token_dims, token_dims)
        self.norm1 = nn.LayerNorm(token_dims)
        self.mlp = nn.Sequential(
            nn.Linear(token_dims, mlp_ratio * token_dims), nn.GELU(),
            nn.Linear(mlp_ratio * token_dims, token_dims))
        self.norm2 = nn.LayerNorm(token_dims)
        self.drop_path = DropPath(drop_path_rate)

    def forward(self, tokens: Tensor) -> Tensor:
        """Update tokens (B, T, d)."""
        attended = self.proj(self.attend(self.query(tokens), tokens))
        tokens = self.norm1(tokens + self.drop_path(attended))
        return self.norm2(tokens + self.drop_path(self.mlp(tokens)))

    def attend(self, query: Tensor, tokens: Tensor) -> Tensor:
        """Attend with queries (B, T, d) to tokens (B, T, d)."""
        query, tokens = (
            t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for t in (query, tokens))
        out = F.scaled_dot_product_attention(query, tokens.to(query.dtype),
                                             tokens.to(query.dtype))
        return out.transpose(1, 2).flatten(2)


class MobileFormerBlock(nn.Module):
    """One block of Mobile-Former V1 (M-F), or its stride-2 form.

    Args:
        in_channels (int): Channels of the incoming features.
        mid_channels (int): Expanded channels.
        out_channels (int): Channels of the outgoing features.
        token_dims (int): Width of the tokens.
        downsample (bool): The stride-2 form. Defaults to False.
        groups (int): Of the 1x1 convolutions. Defaults to 1.
        drop_path_rate (float): Stochastic depth of the token updates and of
            the Mobile branch. Defaults to 0.
    """

    def __init__(self,
                 in_channels: int,
                 mid_channels: int,
                 out_channels: int,
                 token_dims: int,
                 downsample: bool = False,
                 groups: int = 1,
                 drop_path_rate: float = 0.) -> None:
        super().__init__()
        self.mobile_to_former = MobileToFormer(
            in_channels, token_dims, drop_path_rate=drop_path_rate)
        self.former = Former(token_dims, drop_path_rate=drop_path_rate)
        mobile = DownsampleMobile if downsample else Mobile
        self.mobile = mobile(in_channels, mid_channels, out_channels, groups,
                             drop_path_rate)
        second = (
            DownsampleMobile.second_ratio * out_channels
            if downsample else mid_channels)
        self.slopes = DynamicReLUCoefficients(token_dims,
                                              (mid_channels, second))
        self.former_to_mobile = FormerToMobile(out_channels, token_dims)

    def forward(self, x: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Update features and tokens.

        Args:
            x (Tensor): (B, C_in, H, W).
            tokens (Tensor): (B, T, d).

        Returns:
            tuple[Tensor, Tensor]: (B, C_out, H', W') and (B, T, d).
        """
        tokens = self.former(self.mobile_to_former(x, tokens))
        x = self.mobile(x, self.slopes(tokens))
        return self.former_to_mobile(x, tokens), tokens
