# Copyright (c) QB-Heat MM authors. All rights reserved.
"""QB-Heat's predictor: from one quarter's features to the whole map.

Each linear model is z(x + dx, y + dy) = z(x, y) + M z(x, y).
"""
import torch
import torch.nn.functional as F
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor, nn

from ...errors import UserError
from .quarters import CENTER, CORNERS, POSITIONS, Positions

Direction = tuple[int, int]

#: Unit steps (x to the right, y downwards) in the order of the explicit
#: models. A is the matrix to the right, B the one downwards.
DIRECTIONS = dict(
    right=(1, 0),
    left=(-1, 0),
    down=(0, 1),
    up=(0, -1),
    right_down=(1, 1),
    right_up=(1, -1),
    left_down=(-1, 1),
    left_up=(-1, -1))

#: Directions with their own matrix (Figure "Number of explicit linear
#: models"); the others are derived from them.
EXPLICIT_DIRECTIONS = {
    2: ('right', 'down'),
    4: ('right', 'left', 'down', 'up'),
    8: tuple(DIRECTIONS),
}


class LinearExtrapolation(nn.Module):
    r"""Linear prediction along eight directions at one scale.

    The step is absorbed into the matrices: ``M = dx * A`` along x and
    ``M = dy * B`` along y, so that a prediction is ``z + M z``. Derived
    directions follow the appendix "Derivation of Implicit Linear Models":
    the opposite direction is ``-M``; a diagonal averages both orders of its
    horizontal matrix A and vertical matrix B, ``A + B + (A B + B A) / 2``.

    Args:
        embed_dims (int): Channels of the predicted features.
        num_models (int): Explicit matrices: 2, 4 or 8. Defaults to 8.

    Raises:
        UserError: If the number of models is unknown.
    """

    def __init__(self, embed_dims: int, num_models: int = 8) -> None:
        super().__init__()
        if num_models not in EXPLICIT_DIRECTIONS:
            raise UserError(f'num_models={num_models} is not one of '
                             f'{sorted(EXPLICIT_DIRECTIONS)}')
        self.explicit = EXPLICIT_DIRECTIONS[num_models]
        # One parameter for all directions, so that none goes unused under
        # DistributedDataParallel when a batch lacks a direction.
        self.weight = nn.Parameter(
            torch.empty(num_models, embed_dims, embed_dims))
        nn.init.trunc_normal_(self.weight, std=.02)

    def matrix(self, direction: Direction) -> Tensor:
        """Return the matrix M of a unit step.

        Args:
            direction (tuple[int, int]): Signs of the step along x and y.

        Returns:
            Tensor: (embed_dims, embed_dims).

        Raises:
            UserError: If it is not one of the eight directions.
        """
        if direction not in DIRECTIONS.values():
            raise UserError(f'direction={direction!r} must be two signs (-1, '
                            '0 or 1) along x and y, not both 0')
        for i, name in enumerate(self.explicit):
            if DIRECTIONS[name] == direction:
                return self.weight[i]
        step_x, step_y = direction
        if step_y == 0 or step_x == 0:
            return -self.matrix((-step_x, -step_y))
        horizontal = self.matrix((step_x, 0))
        vertical = self.matrix((0, step_y))
        both_orders = horizontal @ vertical + vertical @ horizontal
        return horizontal + vertical + both_orders / 2

    def forward(self, z: Tensor, direction: Direction) -> Tensor:
        """Extrapolate every feature vector by one step.

        Args:
            z (Tensor): (..., embed_dims).
            direction (tuple[int, int]): Signs of the step along x and y.

        Returns:
            Tensor: (..., embed_dims).
        """
        return z + F.linear(z, self.matrix(direction))


class CopiedFeatures(nn.Module):
    """Control: with ``A = B = 0`` each prediction copies its feature.

    Args:
        embed_dims (int): Unused.
    """

    def __init__(self, embed_dims: int) -> None:
        super().__init__()

    def forward(self, z: Tensor, direction: Direction) -> Tensor:
        """Return z, (..., embed_dims)."""
        return z


class MaskToken(nn.Module):
    """Control: one learned vector for all masked positions, as in MAE.

    Args:
        embed_dims (int): Channels of the predicted features.
    """

    def __init__(self, embed_dims: int) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.empty(embed_dims))
        nn.init.normal_(self.token, std=.02)

    def forward(self, z: Tensor, direction: Direction) -> Tensor:
        """Expand the token to the shape of z, (..., embed_dims)."""
        return self.token.to(z.dtype).expand_as(z)


#: Controls without the heat equation.
_CONTROLS = dict(copy=CopiedFeatures, mask_token=MaskToken)


@MODELS.register_module()
class QBHeatPredictor(BaseModule):
    """Linear prediction of the three masked quarters (Section 4.1).

    Features are projected, then extrapolated position by position. Each
    scale has its own matrices: ``half_step`` moves half an image from a
    corner, ``quarter_step`` a quarter of it from the four sub-blocks of the
    center. A scale that ``position`` does not use is not built.

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
        UserError: If position, number of models or prediction is unknown.
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

    def linear_models(self) -> dict[str, LinearExtrapolation]:
        """Return the linear models by scale, the fine one first.

        Controls have none.
        """
        steps = {scale: getattr(self, f'{scale}_step', None)
                 for scale in ('quarter', 'half')}
        return {scale: step for scale, step in steps.items()
                if isinstance(step, LinearExtrapolation)}

    def forward(self, feats: Tensor, positions: Positions) -> Tensor:
        """Predict the features of the whole image.

        Args:
            feats (Tensor): Features of the unmasked quarters, (B, C, h, w).
            positions (Sequence[tuple[str, int]]): Positions of the visible
                quarters and how many images have each, in batch order.

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
        """Extrapolate a corner (B, h, w, D) by half an image."""
        column, row = CORNERS[position]
        step_x, step_y = 1 - 2 * column, 1 - 2 * row
        side = self.half_step(z, (step_x, 0))
        across = self.half_step(z, (0, step_y))
        diagonal = self.half_step(z, (step_x, step_y))
        if column == 0:
            near = torch.cat([z, side], dim=2)
            far = torch.cat([across, diagonal], dim=2)
        else:
            near = torch.cat([side, z], dim=2)
            far = torch.cat([diagonal, across], dim=2)
        return torch.cat([near, far] if row == 0 else [far, near], dim=1)

    def from_center(self, z: Tensor) -> Tensor:
        """Extrapolate the center (B, h, w, D) by a quarter of an image.

        Each of its four sub-blocks predicts its three outward neighbors.
        """
        top, bottom = z.chunk(2, dim=1)
        upper = self.extend(self.quarter_step(top, (0, -1)), top, -1)
        lower = self.extend(self.quarter_step(bottom, (0, 1)), bottom, 1)
        middle = self.extend(z, z, 0)
        return torch.cat([upper, middle, lower], dim=1)

    def extend(self, strip: Tensor, source: Tensor, step_y: int) -> Tensor:
        """Extend a strip by the left and right neighbors of source."""
        left, right = source.chunk(2, dim=2)
        return torch.cat([
            self.quarter_step(left, (-1, step_y)), strip,
            self.quarter_step(right, (1, step_y))
        ], dim=2)
