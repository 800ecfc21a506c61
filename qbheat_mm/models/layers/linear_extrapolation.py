"""The linear models of QB-Heat: z(x + dx, y + dy) = z(x, y) + M z(x, y)."""
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import UserError

Direction = tuple[int, int]

#: Unit steps (x to the right, y downwards) in the order of the explicit
#: models; with 2 explicit models A is the first and B the third of these.
DIRECTIONS = dict(
    right=(1, 0),
    left=(-1, 0),
    down=(0, 1),
    up=(0, -1),
    right_down=(1, 1),
    right_up=(1, -1),
    left_down=(-1, 1),
    left_up=(-1, -1))

#: Directions that have a matrix of their own (Figure "Number of explicit
#: linear models"); all others are derived from them.
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
    backwards is ``-M``; a diagonal averages both orders of its horizontal
    matrix A and vertical matrix B, ``A + B + (A B + B A) / 2``.

    Args:
        embed_dims (int): Channels of the predicted features.
        num_models (int): Explicit matrices: 2, 4 or 8. Defaults to 8.

    Raises:
        UserError: Another number of models.
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
        """The matrix M of a unit step.

        Args:
            direction (tuple[int, int]): Signs of the step along x and y.

        Returns:
            Tensor: (embed_dims, embed_dims).

        Raises:
            UserError: If it is not a direction.
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
    """A control: ``A = B = 0``, every prediction copies the feature.

    Args:
        embed_dims (int): Unused.
    """

    def __init__(self, embed_dims: int) -> None:
        super().__init__()

    def forward(self, z: Tensor, direction: Direction) -> Tensor:
        """Return z, (..., embed_dims)."""
        return z


class MaskToken(nn.Module):
    """A control: one learned vector for all masked positions, as in MAE.

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
