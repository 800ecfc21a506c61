# Copyright (c) QB-Heat MM authors. All rights reserved.
"""DY-ReLU and the convolutional sub-blocks of Mobile-Former."""
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from mmcv.cnn.bricks import DropPath
from torch import Tensor, nn

# A quotient of slopes could overflow or lose digits in these.
_HALF = (torch.float16, torch.bfloat16)


class _LargerLine(torch.autograd.Function):
    """``max(first * x, second * x)``, saving only its inputs.

    Plain autograd would save both lines and share the gradient where they
    are equal.
    """

    @staticmethod
    def forward(ctx, x: Tensor, first: Tensor, second: Tensor) -> Tensor:
        ctx.dtype = first.dtype
        first, second = first.to(x.dtype), second.to(x.dtype)
        ctx.save_for_backward(x, first, second)
        return (second * x).clamp_(min=first * x)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, first, second = ctx.saved_tensors
        difference = first - second
        lead = difference * x  # positive where the first line is larger
        keep = torch.ops.aten.threshold_backward
        grad_x = (grad * second).addcmul_(keep(grad, lead, 0), difference)
        lines = grad * x
        both = lines.sum((2, 3), keepdim=True, dtype=ctx.dtype)
        grad_first = keep(lines, lead, 0).sum(
            (2, 3), keepdim=True, dtype=ctx.dtype)
        return grad_x, grad_first, both - grad_first


class DynamicReLU(nn.Module):
    """DY-ReLU: ``max(a1 * x, a2 * x)`` with slopes per image and channel."""

    def forward(self, x: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """Apply the slopes.

        Args:
            x (Tensor): Features, (B, C, H, W).
            first (Tensor): Slopes a1, at least 0, (B, C, 1, 1).
            second (Tensor): Slopes a2, (B, C, 1, 1).
        """
        if torch.is_grad_enabled():
            return _LargerLine.apply(x, first, second)
        first, second = first.to(x.dtype), second.to(x.dtype)
        if x.dtype in _HALF or torch.compiler.is_compiling():
            return torch.maximum(first * x, second * x)
        # Two passes over the map. The division needs a positive slope, and
        # F.prelu takes no slopes per image.
        low, high = torch.minimum(first, second), torch.maximum(first, second)
        high = high.clamp(min=torch.finfo(x.dtype).eps)
        return torch._prelu_kernel(x, low / high).mul_(high)


class DynamicReLUCoefficients(nn.Module):
    """Compute the slopes of a block's DY-ReLUs from its first token.

    The squeezing layers share their input, so one product computes both.

    Args:
        token_dims (int): Width d of the tokens.
        channels (Sequence[int]): Channels of each DY-ReLU of the block.
    """

    def __init__(self, token_dims: int, channels: Sequence[int]) -> None:
        super().__init__()
        self.squeeze = nn.Linear(token_dims, len(channels) * (token_dims // 4))
        self.expand = nn.ModuleList(
            nn.Linear(token_dims // 4, 2 * width) for width in channels)
        self.widths, ends = [], []
        for width in channels:
            self.widths += [width, width]
            ends += [torch.ones(width), torch.zeros(width)]
        self.register_buffer('center', torch.cat(ends), persistent=False)

    def forward(self, tokens: Tensor) -> tuple[Tensor, ...]:
        """Compute the slopes.

        Args:
            tokens (Tensor): (B, T, d); only the first token is used.

        Returns:
            tuple[Tensor]: a1 and a2, (B, C, 1, 1), of each DY-ReLU in turn.
            a1 lies in [0, 2], a2 in [-1, 1]; a linear layer of zeros makes
            them 1 and 0 (ReLU).
        """
        hidden = F.relu(self.squeeze(tokens[:, 0]))
        parts = hidden.chunk(len(self.expand), dim=1)
        logits = torch.cat([expand(part) for expand, part
                            in zip(self.expand, parts)], dim=1)
        # 2 * hsigmoid(logits) - 1 is hardtanh(logits, -3, 3) / 3
        slopes = torch.add(
            self.center, F.hardtanh(logits, -3, 3), alpha=1 / 3)
        return slopes[..., None, None].split(self.widths, dim=1)


class ConvBN(nn.Sequential):
    """Sequential layers that fold BN into its convolution at inference.

    Folding saves one pass over each map if gradients are off and BN uses
    running statistics, as in frozen encoders.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Run the layers."""
        layers = list(self)
        while layers:
            layer = layers.pop(0)
            if layers and self._may_fold(layer, layers[0]):
                weight, bias = self._fold(layer, layers.pop(0))
                x = F.conv2d(x, weight, bias, layer.stride, layer.padding,
                             layer.dilation, layer.groups)
            else:
                x = layer(x)
        return x

    @staticmethod
    def _may_fold(layer: nn.Module, following: nn.Module) -> bool:
        return (isinstance(layer, nn.Conv2d) and layer.bias is None
                and layer.padding_mode == 'zeros'
                and isinstance(following, nn.BatchNorm2d | nn.SyncBatchNorm)
                and following.affine
                and following.running_mean is not None
                and not following.training and not torch.is_grad_enabled())

    @staticmethod
    def _fold(conv: nn.Conv2d, bn: nn.BatchNorm2d | nn.SyncBatchNorm
              ) -> tuple[Tensor, Tensor]:
        # fuse_conv_bn_weights of PyTorch cannot be compiled
        scale = bn.weight * torch.rsqrt(bn.running_var + bn.eps)
        bias = torch.addcmul(bn.bias, bn.running_mean, scale, value=-1)
        return conv.weight * scale.view(-1, 1, 1, 1), bias


def conv_bn(in_channels: int,
            out_channels: int,
            kernel_size: int = 1,
            stride: int = 1,
            groups: int = 1,
            shuffle: int = 1) -> ConvBN:
    """Build convolution and BN, with a channel shuffle if ``shuffle`` > 1."""
    layers = [
        nn.Conv2d(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            kernel_size // 2,
            groups=groups,
            bias=False),
        nn.BatchNorm2d(out_channels)
    ]
    if shuffle > 1:
        layers.append(nn.ChannelShuffle(shuffle))
    return ConvBN(*layers)


def depthwise(in_channels: int,
              out_channels: int,
              stride: int = 1,
              shuffle: int = 1) -> ConvBN:
    """Build a 3x3 depthwise convolution, possibly widening, and BN."""
    return conv_bn(in_channels, out_channels, 3, stride, in_channels, shuffle)


class LiteBottleneck(nn.Module):
    """Depthwise 3x3, ReLU6, pointwise 1x1; no tokens ("bneck-lite").

    Residual if input and output have the same shape.

    Args:
        in_channels (int): Input channels.
        mid_channels (int): Channels after the depthwise convolution.
        out_channels (int): Output channels.
        stride (int): Stride of the depthwise convolution. Defaults to 1.
        groups (int): Groups of the 1x1 convolution, preceded by a channel
            shuffle if > 1. Defaults to 1.
        drop_path_rate (float): Stochastic depth. Defaults to 0.
    """

    def __init__(self,
                 in_channels: int,
                 mid_channels: int,
                 out_channels: int,
                 stride: int = 1,
                 groups: int = 1,
                 drop_path_rate: float = 0.) -> None:
        super().__init__()
        self.depthwise = depthwise(in_channels, mid_channels, stride)
        self.act = nn.ReLU6()
        self.shuffle = (
            nn.ChannelShuffle(in_channels) if groups > 1 else nn.Identity())
        self.pointwise = conv_bn(mid_channels, out_channels, groups=groups)
        self.drop_path = DropPath(drop_path_rate)
        self.residual = stride == 1 and in_channels == out_channels

    def forward(self, x: Tensor) -> Tensor:
        """(B, C_in, H, W) to (B, C_out, H / stride, W / stride)."""
        out = self.pointwise(self.shuffle(self.act(self.depthwise(x))))
        return x + self.drop_path(out) if self.residual else out


class Mobile(nn.Module):
    """Inverted bottleneck with DY-ReLU (the Mobile branch of M-F).

    Args:
        in_channels (int): Input channels.
        mid_channels (int): Expanded channels.
        out_channels (int): Output channels.
        groups (int): Groups of both 1x1 convolutions, each followed by a
            channel shuffle if > 1. Defaults to 1.
        drop_path_rate (float): Stochastic depth. Defaults to 0.
    """

    def __init__(self,
                 in_channels: int,
                 mid_channels: int,
                 out_channels: int,
                 groups: int = 1,
                 drop_path_rate: float = 0.) -> None:
        super().__init__()
        self.expand = conv_bn(
            in_channels, mid_channels, groups=groups, shuffle=groups)
        self.depthwise = depthwise(mid_channels, mid_channels)
        self.project = conv_bn(
            mid_channels, out_channels, groups=groups, shuffle=groups)
        self.act = DynamicReLU()
        self.drop_path = DropPath(drop_path_rate)
        self.residual = in_channels == out_channels

    def forward(self, x: Tensor, slopes: Sequence[Tensor]) -> Tensor:
        """(B, C_in, H, W) to (B, C_out, H, W), with slopes of two DY-ReLUs."""
        out = self.act(self.expand(x), *slopes[:2])
        out = self.act(self.depthwise(out), *slopes[2:])
        out = self.project(out)
        return x + self.drop_path(out) if self.residual else out


class DownsampleMobile(nn.Module):
    """Stride-2 Mobile (M-F with a down arrow): two depthwise halves.

    Only the second half is residual.

    Args:
        in_channels (int): Input channels.
        mid_channels (int): Channels after the strided depthwise convolution.
        out_channels (int): Output channels.
        groups (int): Groups of both 1x1 convolutions. Defaults to 1.
        drop_path_rate (float): Stochastic depth. Defaults to 0.
    """
    #: Expansion of the second depthwise convolution.
    second_ratio = 4

    def __init__(self,
                 in_channels: int,
                 mid_channels: int,
                 out_channels: int,
                 groups: int = 1,
                 drop_path_rate: float = 0.) -> None:
        super().__init__()
        wide = self.second_ratio * out_channels
        shuffles = (in_channels, out_channels) if groups > 1 else (1, 1)
        self.depthwise1 = depthwise(in_channels, mid_channels, 2, shuffles[0])
        self.project1 = conv_bn(mid_channels, out_channels, groups=groups)
        self.depthwise2 = depthwise(out_channels, wide, 1, shuffles[1])
        self.project2 = conv_bn(wide, out_channels, groups=groups)
        self.act = DynamicReLU()
        self.drop_path = DropPath(drop_path_rate)

    def forward(self, x: Tensor, slopes: Sequence[Tensor]) -> Tensor:
        """(B, C_in, H, W) to (B, C_out, ceil(H / 2), ceil(W / 2))."""
        x = self.project1(self.act(self.depthwise1(x), *slopes[:2]))
        out = self.project2(self.act(self.depthwise2(x), *slopes[2:]))
        return x + self.drop_path(out)
