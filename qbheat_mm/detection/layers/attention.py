"""Multi-head attention with any subset of its four projections."""
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    """Multi-head attention, batch first.

    Mobile-Former does not project pixels, of which there are many:
    Mobile->Former projects queries and output, Former->Mobile keys and
    values, self-attention all four.

    Args:
        embed_dims (int): Width C of queries, keys, values and output.
        num_heads (int): Number of heads; must divide ``embed_dims``.
        projections (str): The projected ones among ``'q'`` (queries), ``'k'``
            (keys), ``'v'`` (values) and ``'o'`` (output).
        dropout (float): Dropout on the attention weights.
    """

    def __init__(self,
                 embed_dims: int,
                 num_heads: int,
                 projections: str,
                 dropout: float = 0.) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.dropout = dropout
        for name in 'qkvo':
            setattr(
                self, f'{name}_proj',
                nn.Linear(embed_dims, embed_dims)
                if name in projections else nn.Identity())

    def _split_heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self,
                query: Tensor,
                key: Tensor,
                value: Tensor,
                key_mask: Tensor | None = None) -> Tensor:
        """Attend.

        Args:
            query (Tensor): (B, N, C).
            key (Tensor): (B, M, C).
            value (Tensor): (B, M, C).
            key_mask (Tensor, optional): (B, 1, 1, M), bool, True for
                visible keys, at least one per image.

        Returns:
            Tensor: (B, N, C).
        """
        # The kernel turns a boolean mask into -inf: nothing overflows in
        # 16 bits.
        out = F.scaled_dot_product_attention(
            self._split_heads(self.q_proj(query)),
            self._split_heads(self.k_proj(key)),
            self._split_heads(self.v_proj(value)),
            attn_mask=key_mask,
            dropout_p=self.dropout if self.training else 0.)
        return self.o_proj(out.transpose(1, 2).flatten(2))
