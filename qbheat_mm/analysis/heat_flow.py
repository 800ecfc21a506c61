# Copyright (c) QB-Heat MM authors. All rights reserved.
r"""The learned linear system, solved over the whole image.

Property 2: :math:`z(x, y) = e^{Ax} e^{By} z(0, 0)`. Training knows only one
step: :math:`z(x + \Delta) = P z(x)` with :math:`P = I + M`. Two readings turn
it into the continuous A:

- ``'exact'``: the flow whose step is the trained one, :math:`e^{A\Delta} = P`,
  so that :math:`e^{Ax} = P^{x/\Delta}`. After whole steps it repeats the
  trained prediction; between them it is a fractional power, on the principal
  branch. A real A does not exist if P has a negative eigenvalue: the power is
  then complex between whole steps and its real part is taken.
- ``'euler'``: :math:`A = M / \Delta`, the paper's finite difference read
  literally, so that :math:`e^{Ax} = e^{Mx/\Delta}`. Its step is
  :math:`e^M = I + M + M^2/2 + ...`, which the trained one is up to
  :math:`M^2/2`.
"""
from collections.abc import Sequence
from contextlib import suppress

import torch
from torch import Tensor

from ..errors import UserError

READINGS = ('exact', 'euler')

# Largest relative error of V diag(l) V^-1 against the matrix itself.
_DECOMPOSITION_ERROR = 1e-6


class Flow:
    """Propagation along one axis, by any number of steps.

    Args:
        matrix (Tensor): The learned M of one step, (D, D).
        reading (str): ``'exact'`` or ``'euler'``, see above.

    Raises:
        UserError: Another reading, or a matrix that cannot be diagonalized
            (``'exact'`` only).
    """

    def __init__(self, matrix: Tensor, reading: str = 'exact') -> None:
        if reading not in READINGS:
            raise UserError(f'reading={reading!r} is not one of '
                             f'{", ".join(READINGS)}')
        self.reading = reading
        self.matrix = matrix.double()
        if reading == 'exact':
            self._diagonalize()

    def _diagonalize(self) -> None:
        propagator = torch.eye(len(self.matrix)).to(self.matrix) + self.matrix
        self.values, self.vectors = torch.linalg.eig(propagator)
        gap, allowed = float('inf'), float(propagator.norm())
        with suppress(torch.linalg.LinAlgError):
            self.inverse = torch.linalg.inv(self.vectors)
            gap = float((self(1) - propagator).norm())
        if not gap <= _DECOMPOSITION_ERROR * allowed:
            raise UserError(
                f'I + M of {len(self.matrix)} dimensions has no basis of '
                f'eigenvectors (error {gap:.1e}), so that it has no '
                "fractional powers here; use reading='euler'")

    def __call__(self, steps: float) -> Tensor:
        """The propagator over a number of steps, (D, D).

        Complex for ``'exact'``: real up to rounding at whole steps.
        """
        if self.reading == 'euler':
            return torch.matrix_exp(steps * self.matrix)
        return (self.vectors * self.values**steps) @ self.inverse

    def apply(self, z: Tensor, steps: Sequence[float]) -> Tensor:
        """Propagate vectors (..., D) by each of S numbers of steps.

        Returns:
            Tensor: (S, ..., D).
        """
        if self.reading == 'euler':
            z = z.to(self.matrix)
            return torch.stack([z @ self(step).T for step in steps])
        coordinates = z.to(self.inverse) @ self.inverse.T
        powers = torch.stack([self.values**step for step in steps])
        powers = powers.view(len(steps), *[1] * (z.dim() - 1), -1)
        return (coordinates * powers) @ self.vectors.T

    @property
    def negative_eigenvalues(self) -> int:
        """Eigenvalues of P that are real and negative (``'exact'``)."""
        scale = self.values.abs().max()
        real = self.values.imag.abs() < 1e-9 * scale
        return int((real & (self.values.real < 0)).sum())


def roll_out(start: Tensor, flow_x: Flow, flow_y: Flow,
             steps_x: Sequence[float], steps_y: Sequence[float]) -> Tensor:
    """The solution e^{Ax} e^{By} z(0, 0) on a grid.

    Args:
        start (Tensor): z(0, 0), (D, ).
        flow_x (Flow): Along x, to the right.
        flow_y (Flow): Along y, downwards.
        steps_x (Sequence[float]): The W columns, in steps from the start;
            negative ones, to the left, invert the flow.
        steps_y (Sequence[float]): The H rows, likewise.

    Returns:
        Tensor: (H, W, D), double precision.
    """
    column = flow_y.apply(start.double(), steps_y)
    field = flow_x.apply(column, steps_x).transpose(0, 1)
    return field.real if field.is_complex() else field


def error_by_distance(fields: Tensor, flow_x: Flow, flow_y: Flow,
                      positions_per_step: Sequence[float]
                      ) -> dict[str, dict[str, Tensor]]:
    r"""How far the flow is from real features, from all starts.

    Errors are relative to the spread of the features: the root of
    :math:`\overline{|\hat z - z|^2} / \overline{|z - \bar z|^2}`, so that 1 is
    as bad as the mean feature everywhere and about 1.41 as bad as another
    position's feature at random.

    Args:
        fields (Tensor): Feature maps (B, H, W, D).
        flow_x (Flow): Along x.
        flow_y (Flow): Along y.
        positions_per_step (Sequence[float]): How many positions one step
            of each flow is long, along x and y.

    Returns:
        dict[str, dict[str, Tensor]]: For ``'right'``, ``'down'`` and
        ``'right_down'`` the errors at distances of 0, 1, 2 ... positions (of
        each axis) of the ``'flow'`` and of ``'constant'``, a field that
        stays as at its start (the paper's collapse solution, A = B = 0).
    """
    fields = fields.double()
    height, width = fields.shape[1:3]
    spread = (fields - fields.mean(dim=(0, 1, 2))).square().sum(-1).mean()
    report = {}
    for name, (unit_x, unit_y) in dict(
            right=(1, 0), down=(0, 1), right_down=(1, 1)).items():
        reach = min(n for n, unit in ((width, unit_x), (height, unit_y))
                    if unit)
        errors = dict(flow=[], constant=[])
        for distance in range(reach):
            dx, dy = unit_x * distance, unit_y * distance
            start = fields[:, :height - dy, :width - dx]
            end = fields[:, dy:, dx:]
            propagator = flow_x(dx / positions_per_step[0])
            if unit_y:
                propagator = propagator @ flow_y(dy / positions_per_step[1])
            if propagator.is_complex():
                propagator = propagator.real
            for key, found in (('flow', start @ propagator.T),
                               ('constant', start)):
                error = (found - end).square().sum(-1).mean()
                errors[key].append((error / spread).sqrt())
        report[name] = {key: torch.stack(e) for key, e in errors.items()}
    return report


def principal_colours(real: Tensor, *fields: Tensor) -> Sequence[Tensor]:
    """Show feature maps by the first three principal components of one.

    Args:
        real (Tensor): The map that sets components and range, (H, W, D).
        *fields (Tensor): Maps to show beside it, (H, W, D).

    Returns:
        list[Tensor]: ``real`` and ``fields`` as (H, W, 3) in [0, 1], each
        component from the 1st to the 99th percentile of ``real``; beyond
        that it is cut.
    """
    vectors = real.double().flatten(0, 1)
    mean = vectors.mean(dim=0)
    axes = torch.linalg.svd(vectors - mean, full_matrices=False).Vh[:3]
    # The sign of a component is arbitrary: fix it, for equal colours.
    largest = axes.gather(1, axes.abs().argmax(dim=1, keepdim=True))
    axes = axes * largest.sign()
    scores = (vectors - mean) @ axes.T
    low, high = (scores.quantile(q, dim=0) for q in (0.01, 0.99))
    span = (high - low).clamp(min=1e-12)
    return [(((field.double() - mean) @ axes.T - low) / span).clamp(0, 1)
            for field in (real, *fields)]
