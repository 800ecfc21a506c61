"""The predictor of QB-Heat: from one quarter's features to the whole map."""
import torch
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor, nn

from ...errors import UserError
from ..layers.linear_extrapolation import (
    CopiedFeatures,
    LinearExtrapolation,
    MaskToken,
)
from .quarters import CENTER, CORNERS, POSITIONS, Positions

#: Controls without the heat equation.
_CONTROLS = dict(copy=CopiedFeatures, mask_token=MaskToken)


@MODELS.register_module()
class QBHeatPredictor(BaseModule):
    """Linear prediction of the three masked quarters (Section 4.1).

    Features are projected, then extrapolated position by position. Each
    scale has its own matrices: ``half_step`` moves by half of the image from
    a corner, ``quarter_step`` by a quarter of it from the four sub-blocks of
    the center. A scale that ``position`` does not use is not built.

    Args:
        in_channels (int): Channels of the encoder's last features.
        embed_dims (int): Channels of the predicted features. Defaults to
            512.
        position (str): ``'corner'``, ``'center'`` or ``'mixed'``. Defaults
            to 'mixed'.
        num_models (int): Explicit linear models per scale: 2, 4 or 8.
            Defaults to 8.
        prediction (str): ``'linear'`` (the paper), or a control: ``'copy'``
            (A = B = 0) or ``'mask_token'`` (one learned vector, as in MAE).
            Defaults to 'linear'.
        init_cfg (dict, optional): Initialization of the projection; Xavier's
            if None.

    Raises:
        UserError: An unknown position, number of models or prediction.
    """

    def __init__(self,
                 in_channels: int,
                 embed_dims: int = 512,
                 position: str = 'mixed',
                 num_models: int = 8,
                 prediction: str = 'linear',
                 init_cfg: dict | None = None) -> None:
        super().__init__(init_cfg or dict(type='Xavier', layer='Linear'))
        if prediction not in ('linear', *_CONTROLS):
            raise UserError(f'prediction={prediction!r} is not one of '
                            f'{", ".join(map(repr, ("linear", *_CONTROLS)))}')
        if position not in POSITIONS:
            raise UserError(f'position={position!r} is not one of '
                             f'{", ".join(map(repr, POSITIONS))}')
        self.in_channels = in_channels
        self.embed_dims = embed_dims
        self.proj = nn.Linear(in_channels, embed_dims)

        def extrapolation() -> nn.Module:
            if prediction == 'linear':
                return LinearExtrapolation(embed_dims, num_models)
            return _CONTROLS[prediction](embed_dims)

        if position != 'center':
            self.half_step = extrapolation()
        if position != 'corner':
            self.quarter_step = extrapolation()

    def forward(self, feats: Tensor, positions: Positions) -> Tensor:
        """Predict the features of the whole image.

        Args:
            feats (Tensor): Features of the unmasked quarters, (B, C, h, w).
            positions (Sequence[tuple[str, int]]): Of the visible quarters.

        Returns:
            Tensor: (B, 2h, 2w, embed_dims).
        """
        z = self.proj(feats.permute(0, 2, 3, 1))
        maps = []
        parts = z.split([count for _, count in positions])
        for part, (position, _) in zip(parts, positions):
            maps.append(
                self.from_center(part) if position == CENTER else
                self.from_corner(part, position))
        return torch.cat(maps)

    def from_corner(self, z: Tensor, position: str) -> Tensor:
        """Extrapolate a corner (B, h, w, D) by half of the image."""
        column, row = CORNERS[position]
        step_x, step_y = 1 - 2 * column, 1 - 2 * row
        beside = self.half_step(z, (step_x, 0))
        across = self.half_step(z, (0, step_y))
        diagonal = self.half_step(z, (step_x, step_y))
        near = (z, beside)[::step_x]
        far = (across, diagonal)[::step_x]
        rows = [torch.cat(pair, dim=2) for pair in (near, far)[::step_y]]
        return torch.cat(rows, dim=1)

    def from_center(self, z: Tensor) -> Tensor:
        """Extrapolate the center (B, h, w, D) by a quarter of the image.

        Each of its four sub-blocks predicts its three outward neighbors.
        """
        top, bottom = z.chunk(2, dim=1)
        upper = self.beside(self.quarter_step(top, (0, -1)), top, -1)
        lower = self.beside(self.quarter_step(bottom, (0, 1)), bottom, 1)
        middle = self.beside(z, z, 0)
        return torch.cat([upper, middle, lower], dim=1)

    def beside(self, strip: Tensor, source: Tensor, step_y: int) -> Tensor:
        """Extend a strip by the left and right neighbors of source."""
        left, right = source.chunk(2, dim=2)
        return torch.cat([
            self.quarter_step(left, (-1, step_y)), strip,
            self.quarter_step(right, (1, step_y))
        ], dim=2)
