"""DY-ReLU of Mobile-Former: a two-piece activation driven by a token."""
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class _TwoPiece(torch.autograd.Function):
    """``low * x + gap * relu(x)``, saving only its inputs.

    Plain autograd would keep two more maps of the size of ``x``.
    """

    @staticmethod
    def forward(ctx, x: Tensor, low: Tensor, gap: Tensor) -> Tensor:
        ctx.save_for_backward(x, low, gap)
        return F.relu(x).mul_(gap).addcmul_(x, low)

    @staticmethod
    def backward(ctx, grad: Tensor):
        x, low, gap = ctx.saved_tensors
        grad_low = grad * x
        grad_gap = torch.ops.aten.threshold_backward(grad_low, x, 0)
        positive = torch.ops.aten.threshold_backward(grad, x, 0)
        grad_x = (grad * low).addcmul_(positive, gap)
        pixels = (2, 3)
        return (grad_x, grad_low.sum(pixels, keepdim=True),
                grad_gap.sum(pixels, keepdim=True))


class DynamicReLU(nn.Module):
    """``max(a1 * x, a2 * x)`` with slopes per image and channel.

    Args of forward:
        x (Tensor): Features, (B, C, H, W).
        slopes (Tensor): (B, 2C); the first C entries are a1, the others a2.
    """

    def forward(self, x: Tensor, slopes: Tensor) -> Tensor:
        first, second = slopes.to(x.dtype)[..., None, None].chunk(2, dim=1)
        # max(a1 x, a2 x) = low x + (high - low) relu(x)
        low = torch.minimum(first, second)
        gap = torch.maximum(first, second) - low
        return _TwoPiece.apply(x, low, gap)


class DynamicReLUCoefficients(nn.Module):
    """Compute the slopes of a block's DY-ReLUs from its first token.

    The squeezing layers share their input and are one product.

    Args:
        token_dims (int): Width d of the tokens.
        channels (Sequence[int]): Channels of each DY-ReLU of the block.
    """

    def __init__(self, token_dims: int, channels: Sequence[int]) -> None:
        super().__init__()
        self.squeeze = nn.Linear(token_dims, len(channels) * (token_dims // 4))
        self.expand = nn.ModuleList(
            nn.Linear(token_dims // 4, 2 * width) for width in channels)

    def forward(self, tokens: Tensor) -> list[Tensor]:
        """Compute the slopes.

        Args:
            tokens (Tensor): (B, T, d); only the first token is used.

        Returns:
            list[Tensor]: (B, 2C) for each DY-ReLU. a1 lies in [0, 2], a2 in
            [-1, 1]; they are 1 and 0 where the linear layer gives 0.
        """
        hidden = F.relu(self.squeeze(tokens[:, 0]))
        slopes = []
        for expand, part in zip(self.expand,
                                hidden.chunk(len(self.expand), dim=1)):
            first, second = F.hardsigmoid(expand(part)).chunk(2, dim=1)
            slopes.append(torch.cat([2 * first, 2 * second - 1], dim=1))
        return slopes
