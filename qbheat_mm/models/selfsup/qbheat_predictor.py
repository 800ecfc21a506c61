# Copyright (c) QB-Heat MM authors. All rights reserved.
"""QB-Heat's predictor: from one quarter's features to the whole map.

Each linear model is z(x + dx, y + dy) = z(x, y) + M z(x, y) (Equation 5).
"""
from collections.abc import Sequence

import torch
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor, nn

from ...errors import UserError
from .quarters import CENTER, CORNERS, POSITIONS, Positions

Direction = tuple[int, int]
#: Column and row in a grid of 2x2.
Cell = tuple[int, int]

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

#: Directions with their own matrix (Figure 5); the others are derived.
EXPLICIT_DIRECTIONS = {
    2: ('right', 'down'),
    4: ('right', 'left', 'down', 'up'),
    8: tuple(DIRECTIONS),
}


class LinearExtrapolation(nn.Module):
    r"""Linear prediction along eight directions at one scale.

    The step is absorbed into the matrices: ``M = dx * A`` along x and
    ``M = dy * B`` along y, so that a prediction is ``z + M z``. Derived
    directions follow Appendix A: the opposite direction is ``-M`` (Equation
    9); a diagonal averages both orders of its horizontal matrix A and vertical
    matrix B, ``A + B + (A B + B A) / 2`` (Equation 12).

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

    def forward(self, z: Tensor, cells: Sequence[Cell]) -> Tensor:
        """Fill a 2x2 grid from one of its cells.

        Args:
            z (Tensor): Features of the known cells, (G, N, embed_dims).
            cells (Sequence[tuple[int, int]]): Column and row of each of the
                G known cells.

        Returns:
            Tensor: (G, 2, 2, N, embed_dims), by row and column.
        """
        matrices = self._all_matrices().to(z.dtype)
        staying = torch.zeros_like(matrices[:1])
        steps = torch.tensor([_steps(*cell) for cell in cells],
                             device=z.device)
        weights = torch.cat([matrices, staying]).index_select(
            0, steps.flatten())
        # One product for all cells.
        moves = torch.bmm(z, weights.unflatten(0, (-1, 4)).flatten(
            1, 2).transpose(1, 2))
        grid = z[:, :, None] + moves.unflatten(2, (4, -1))
        return grid.transpose(1, 2).unflatten(1, (2, 2))

    def _all_matrices(self) -> Tensor:
        """Return the matrices of all DIRECTIONS, (8, D, D)."""
        if len(self.explicit) == len(DIRECTIONS):
            return self.weight
        return torch.stack([self.matrix(d) for d in DIRECTIONS.values()])


def _steps(column: int, row: int) -> list[int]:
    """Index the steps to the cells of a 2x2 grid; the last index stays."""
    indices = {step: i for i, step in enumerate(DIRECTIONS.values())}
    steps = []
    for to_row in range(2):
        for to_column in range(2):
            step = to_column - column, to_row - row
            steps.append(indices.get(step, len(indices)))
    return steps


class CopiedFeatures(nn.Module):
    """Control: with ``A = B = 0`` each prediction copies its feature.

    Args:
        embed_dims (int): Unused.
    """

    def __init__(self, embed_dims: int) -> None:
        super().__init__()

    def forward(self, z: Tensor, cells: Sequence[Cell]) -> Tensor:
        """(G, N, embed_dims) to (G, 2, 2, N, embed_dims)."""
        return z[:, None, None].expand(-1, 2, 2, -1, -1)


class MaskToken(nn.Module):
    """Control: one learned vector for all masked positions, as in MAE.

    Args:
        embed_dims (int): Channels of the predicted features.
    """

    def __init__(self, embed_dims: int) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.empty(embed_dims))
        nn.init.normal_(self.token, std=.02)

    def forward(self, z: Tensor, cells: Sequence[Cell]) -> Tensor:
        """(G, N, embed_dims) to (G, 2, 2, N, embed_dims)."""
        known = torch.zeros(len(cells), 2, 2, 1, 1, dtype=torch.bool)
        for i, (column, row) in enumerate(cells):
            known[i, row, column] = True
        return torch.where(known.to(z.device), z[:, None, None],
                           self.token.to(z.dtype))


def _share_product(positions: Positions) -> list[tuple[int, list[str]]]:
    """Group consecutive corners with equally many images, and the center.

    Returns:
        list[tuple[int, list[str]]]: Images of each position, and positions.
    """
    groups, last = [], None
    for position, count in positions:
        if (position == CENTER, count) != last:
            groups.append((count, []))
        groups[-1][1].append(position)
        last = position == CENTER, count
    return groups


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
        models = {}
        for scale in ('quarter', 'half'):
            step = getattr(self, f'{scale}_step', None)
            if isinstance(step, LinearExtrapolation):
                models[scale] = step
        return models

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
        groups = _share_product(positions)
        parts = z.split([count * len(names) for count, names in groups])
        predicted = []
        for part, (_, names) in zip(parts, groups):
            if names[0] == CENTER:
                predicted.append(self.from_center(part))
            else:
                cells = [CORNERS[name] for name in names]
                predicted.append(self.from_corners(part, cells))
        return torch.cat(predicted)

    def from_corners(self, z: Tensor, cells: Sequence[Cell]) -> Tensor:
        """Extrapolate corners (B, h, w, D) by half an image.

        Each of the cells has the same share of the batch.
        """
        _, height, width, dims = z.shape
        grid = self.half_step(z.view(len(cells), -1, dims), cells)
        grid = grid.unflatten(3, (-1, height, width))
        # From (cell, row, column, image, h, w, D).
        return grid.permute(0, 3, 1, 4, 2, 5, 6).reshape(
            -1, 2 * height, 2 * width, dims)

    def from_center(self, z: Tensor) -> Tensor:
        """Extrapolate the center (B, h, w, D) by a quarter of an image.

        Each of its four sub-blocks predicts its three outward neighbors.
        """
        batch, height, width, dims = z.shape
        blocks = z.view(batch, 2, height // 2, 2, width // 2, dims)
        blocks = blocks.permute(1, 3, 0, 2, 4, 5)
        grid = self.quarter_step(blocks.reshape(4, -1, dims),
                                 [(1, 1), (0, 1), (1, 0), (0, 0)])
        grid = grid.view(2, 2, 2, 2, *blocks.shape[2:])
        # From (block row, block column, row, column, image, h / 2, w / 2, D).
        return grid.permute(4, 0, 2, 5, 1, 3, 6, 7).reshape(
            batch, 2 * height, 2 * width, dims)
