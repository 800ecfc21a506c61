"""The Former sub-block of Mobile-Former: self-attention of the tokens."""
import torch.nn.functional as F
from mmcv.cnn.bricks import DropPath
from torch import Tensor, nn


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
