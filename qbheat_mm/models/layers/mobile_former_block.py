# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The Mobile-Former block: Mobile->Former, Former, Mobile, Former->Mobile.

Pixels are read as (B, H * W, C), which in the ``channels_last`` layout is a
view of the feature map: no bridge copies or transposes a map.
"""
import torch
import torch.nn.functional as F
from mmcv.cnn.bricks import DropPath
from torch import Tensor, nn

from ...errors import UserError
from .autocast import outside_autocast
from .mobile import DownsampleMobile, DynamicReLUCoefficients, Mobile


def attend(query: Tensor, memory: Tensor) -> Tensor:
    """Attend with queries to keys that are their own values.

    Args:
        query (Tensor): (B, T, heads * C).
        memory (Tensor): Keys and values, (B, heads, N, C).

    Returns:
        Tensor: (B, T, heads * C).
    """
    query = query.unflatten(-1, (memory.shape[1], -1)).transpose(1, 2)
    query = query.to(memory.dtype)
    out = F.scaled_dot_product_attention(query, memory, memory)
    return out.transpose(1, 2).flatten(2)


class MobileToFormer(nn.Module):
    """Cross-attention from tokens to pixels (Mobile-Former V1, post-norm).

    Pixels are keys and values without projection; ``2 * hsigmoid`` of a
    linear layer of the token gates each channel of the result.

    Args:
        channels (int): Channels C of the features.
        token_dims (int): Width d of the tokens.
        num_heads (int): Attention heads. Defaults to 2.
        drop_path_rate (float): Stochastic depth. Defaults to 0.
    """

    def __init__(self,
                 channels: int,
                 token_dims: int,
                 num_heads: int = 2,
                 drop_path_rate: float = 0.) -> None:
        super().__init__()
        if channels % num_heads:  # unequal heads would share one scale
            raise UserError(f'MobileToFormer: channels={channels} is not a '
                            f'multiple of num_heads={num_heads}')
        self.num_heads = num_heads
        # Query and gate read the same tokens: one product.
        self.query_gate = nn.Linear(token_dims, 2 * channels)
        self.proj = nn.Linear(channels, token_dims)
        self.drop_path = DropPath(drop_path_rate)
        self.norm = nn.LayerNorm(token_dims)

    def forward(self, x: Tensor, tokens: Tensor) -> Tensor:
        """Update the tokens.

        Args:
            x (Tensor): (B, C, H, W).
            tokens (Tensor): (B, T, d).

        Returns:
            Tensor: (B, T, d).
        """
        query, gate = self.query_gate(tokens).chunk(2, dim=-1)
        pixels = x.unflatten(1, (self.num_heads, -1)).flatten(3)
        attended = attend(query, pixels.transpose(2, 3))
        attended = attended * (2 * F.hardsigmoid(gate))
        return self.norm(tokens + self.drop_path(self.proj(attended)))


class FormerToMobile(nn.Module):
    """Cross-attention from pixels to tokens, added to the features (V1).

    Args:
        channels (int): Channels C of the features.
        token_dims (int): Width d of the tokens.
        num_heads (int): Attention heads. Defaults to 2.
    """

    def __init__(self,
                 channels: int,
                 token_dims: int,
                 num_heads: int = 2) -> None:
        super().__init__()
        self.num_heads = num_heads
        # Keys and values read the same tokens: one product.
        self.key_value = nn.Linear(token_dims, 2 * channels)
        width = channels // num_heads
        own = torch.eye(num_heads).repeat_interleave(width, dim=1)
        # (heads, 1, 2C): masks that also scale the keys.
        self.register_buffer(
            'heads', torch.cat([width**-0.5 * own, own], 1)[:, None],
            persistent=False)

    def forward(self, x: Tensor, tokens: Tensor) -> Tensor:
        """Update the features.

        Args:
            x (Tensor): (B, C, H, W).
            tokens (Tensor): (B, T, d).

        Returns:
            Tensor: (B, C, H, W).
        """
        key_value = self.per_head(self.key_value(tokens)).to(x.dtype)
        key, value = key_value.chunk(2, dim=-1)
        attention = self.attention(key, x.flatten(2)).flatten(1, 2)
        # In the layout of a channels_last map.
        update = torch.bmm(attention.transpose(1, 2), value).transpose(1, 2)
        return x + update.unflatten(2, x.shape[2:])

    def attention(self, key: Tensor, pixels: Tensor) -> Tensor:
        """Compute attention (B, heads, T, N), normalized over the T tokens.

        Args:
            key (Tensor): Keys from :meth:`per_head`, (B, heads * T, C).
            pixels (Tensor): (B, C, N).
        """
        scores = torch.bmm(key, pixels)
        return scores.unflatten(1, (self.num_heads, -1)).softmax(dim=2)

    def per_head(self, key_value: Tensor) -> Tensor:
        """Repeat (B, T, 2C) per head, zeroing other heads' channels.

        One product with the result, (B, heads * T, 2C), serves all heads;
        splitting the pixels into heads would cost more than the zeros.
        """
        return (key_value[:, None] * self.heads).flatten(1, 2)

    def madds_with_zeros(self, x: Tensor, tokens: Tensor) -> int:
        """Multiply-adds spent on the zeros of :meth:`per_head`."""
        products = 2 * x.numel() * tokens.shape[1]  # scores, values
        return (self.num_heads - 1) * products


class Former(nn.Module):
    """Self-attention and MLP of the tokens, post-norm (V1).

    Queries and outputs are projected; keys and values are the tokens.

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
        memory = tokens.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        attended = attend(self.query(tokens), memory)
        tokens = self.norm1(tokens + self.drop_path(self.proj(attended)))
        return self.norm2(tokens + self.drop_path(self.mlp(tokens)))


class MobileFormerBlock(nn.Module):
    """A Mobile-Former V1 block (M-F), or its stride-2 form.

    Args:
        in_channels (int): Channels of the incoming features.
        mid_channels (int): Expanded channels.
        out_channels (int): Channels of the outgoing features.
        token_dims (int): Width of the tokens.
        downsample (bool): The stride-2 form. Defaults to False.
        groups (int): Groups of the 1x1 convolutions. Defaults to 1.
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
        # Tokens hold most weights and hardly any arithmetic: casting them
        # would cost more than it saves.
        with outside_autocast(x):
            tokens = self.former(self.mobile_to_former(x, tokens))
            slopes = self.slopes(tokens)
        x = self.mobile(x, slopes)
        with outside_autocast(x):
            return self.former_to_mobile(x, tokens), tokens
