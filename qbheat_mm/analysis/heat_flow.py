# Copyright (c) QB-Heat MM authors. All rights reserved.
r"""Solve the learned linear system over the whole image.

Equation 3: :math:`z(x, y) = e^{Ax} e^{By} z(0, 0)`. Training only defines one
step, :math:`z(x + \Delta) = P z(x)` with :math:`P = I + M`. Two readings of A:

- ``'exact'``: :math:`e^{Ax} = P^{x/\Delta}`, a power on the principal branch.
  Whole steps repeat the trained prediction. Negative eigenvalues of P allow
  no real A; the real part is used between whole steps.
- ``'euler'``: :math:`A = M / \Delta`, the paper's finite difference. Its step
  equals the trained one up to :math:`M^2/2`.
"""
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..errors import UserError
from ..models.selfsup import QBHeat
from ..models.selfsup.quarters import CORNERS
from ..report.style import (
    BLUE,
    GREEN,
    GREY,
    VERMILION,
    in_style,
    new_figure,
    picture_rows,
)
from ..utils.modules import evaluating

#: Readings of A with their color, line and marker.
READINGS = dict(exact=(BLUE, '-', 'o'), euler=(VERMILION, '--', '^'))
DIRECTIONS = dict(right=(1, 0), down=(0, 1), right_down=(1, 1))


@torch.no_grad()
def projected_features(model: QBHeat, images: Tensor,
                       by_quarter: bool = False) -> Tensor:
    """Compute the features z that the linear models act on.

    Args:
        model (QBHeat): Left unchanged.
        images (Tensor): Normalized images, (B, 3, H, W).
        by_quarter (bool): Encode the four quarters one by one, as in
            pre-training, instead of the whole image. Defaults to False.

    Returns:
        Tensor: (B, h, w, D).
    """

    def project(inputs: Tensor) -> Tensor:
        feats = model.encode(inputs)
        return model.predictor.proj(feats.permute(0, 2, 3, 1))

    with evaluating(model):
        if not by_quarter:
            return project(images)
        quarters = {}
        for name, cell in CORNERS.items():
            crop = model.crop(images, [(name, len(images))])
            quarters[cell] = project(crop)
    top = torch.cat([quarters[0, 0], quarters[1, 0]], dim=2)
    bottom = torch.cat([quarters[0, 1], quarters[1, 1]], dim=2)
    return torch.cat([top, bottom], dim=1)


class Flow:
    """Propagate features along one axis by any number of steps.

    Args:
        matrix (Tensor): The learned M of one step, (D, D).
        reading (str): One of :data:`READINGS`.

    Raises:
        UserError: If the matrix can't be diagonalized (``'exact'`` only).
    """

    def __init__(self, matrix: Tensor, reading: str = 'exact') -> None:
        self.reading = reading
        self.matrix = matrix.to(torch.complex128)
        if reading == 'euler':
            return
        propagator = torch.eye(len(matrix)) + self.matrix
        self.values, self.vectors = torch.linalg.eig(propagator)
        self.inverse, singular = torch.linalg.inv_ex(self.vectors)
        gap = (self(1) - propagator).norm()
        if singular or not gap <= 1e-6 * propagator.norm():
            raise UserError(
                f'I + M of {len(self.matrix)} dimensions has no basis of '
                'eigenvectors and thus no fractional powers: use '
                "reading='euler' (--readings euler)")

    def __call__(self, steps: float) -> Tensor:
        """Return the propagator over a number of steps, (D, D), complex.

        It is real up to rounding at whole steps.
        """
        if self.reading == 'euler':
            return torch.matrix_exp(steps * self.matrix)
        return (self.vectors * self.values**steps) @ self.inverse


def roll_out(start: Tensor, flow_x: Flow, flow_y: Flow,
             steps_x: Sequence[float], steps_y: Sequence[float]) -> Tensor:
    """Compute the solution e^{Ax} e^{By} z(0, 0) on a grid.

    Args:
        start (Tensor): z(0, 0), (D, ).
        flow_x (Flow): To the right.
        flow_y (Flow): Downwards.
        steps_x (Sequence[float]): Steps from the start to the W columns;
            negative ones invert the flow.
        steps_y (Sequence[float]): Steps from the start to the H rows.

    Returns:
        Tensor: (H, W, D).
    """
    start = start.to(torch.complex128)
    column = torch.stack([flow_y(steps) @ start for steps in steps_y])
    return torch.stack([column @ flow_x(steps).T for steps in steps_x],
                       dim=1).real


def error_by_distance(fields: Tensor, flow_x: Flow, flow_y: Flow,
                      positions_per_step: Sequence[float]
                      ) -> dict[str, dict[str, Tensor]]:
    r"""Compare the flow with real features, from all starts.

    Errors are the root of
    :math:`\overline{|\hat z - z|^2} / \overline{|z - \bar z|^2}`: 1 for the
    mean feature, about 1.41 for the feature of another position.

    Args:
        fields (Tensor): Feature maps (B, H, W, D).
        flow_x (Flow): To the right.
        flow_y (Flow): Downwards.
        positions_per_step (Sequence[float]): Along x and y.

    Returns:
        dict[str, dict[str, Tensor]]: For each of :data:`DIRECTIONS` the
        errors at distances of 0, 1, 2 ... positions of the ``'flow'`` and of
        ``'constant'``, the start itself (A = B = 0).
    """
    fields = fields.double()
    height, width = fields.shape[1:3]
    spread = (fields - fields.mean(dim=(0, 1, 2))).square().sum(-1).mean()

    def error(predicted: Tensor, end: Tensor) -> Tensor:
        return ((predicted - end).square().sum(-1).mean() / spread).sqrt()

    report = {}
    for name, (unit_x, unit_y) in DIRECTIONS.items():
        flow, constant = [], []
        for distance in range(max(height, width)):
            dx, dy = unit_x * distance, unit_y * distance
            end = fields[:, dy:, dx:]
            if not end.numel():
                break
            start = fields[:, :height - dy, :width - dx]
            propagator = flow_x(dx / positions_per_step[0]) @ flow_y(
                dy / positions_per_step[1])
            flow.append(error(start @ propagator.real.T, end))
            constant.append(error(start, end))
        report[name] = dict(flow=torch.stack(flow),
                            constant=torch.stack(constant))
    return report


def principal_colors(real: Tensor, *fields: Tensor) -> list[Tensor]:
    """Color feature maps (H, W, D) by the principal components of the first.

    Returns:
        list[Tensor]: Three components of ``real`` and ``fields``, (H, W, 3),
        with the 1st to 99th percentile of ``real`` as [0, 1].
    """
    vectors = real.double().flatten(0, 1)
    mean = vectors.mean(dim=0)
    axes = torch.linalg.svd(vectors - mean, full_matrices=False).Vh[:3]
    scores = (vectors - mean) @ axes.T
    low, high = scores.quantile(0.01, dim=0), scores.quantile(0.99, dim=0)
    span = (high - low).clamp(min=1e-12)
    colors = []
    for field in (real, *fields):
        scores = (field.double() - mean) @ axes.T
        colors.append(((scores - low) / span).clamp(0, 1))
    return colors


@in_style()
def draw_rollouts(rows: Sequence[dict[str, np.ndarray]],
                  start: tuple[int, int]):
    """Draw images and feature maps, framing the start.

    Args:
        rows (Sequence[dict[str, np.ndarray]]): Title to picture, (H, W, 3),
            the image first.
        start (tuple[int, int]): Column and row of the start.
    """
    figure, axes = picture_rows(rows)
    for axis in axes[:, 1:].flat:
        for color, line in (('white', 2), ('black', 0.8)):
            axis.plot(*start, 's', markersize=6, markerfacecolor='none',
                      markeredgecolor=color, markeredgewidth=line)
    return figure


@in_style()
def draw_errors(errors: dict[str, dict[str, dict[str, np.ndarray]]],
                trained: dict[str, int | None]):
    """Draw the error of the flow by distance, one panel per direction.

    Args:
        errors (dict): Reading to the result of :func:`error_by_distance`.
        trained (dict[str, int | None]): Direction to the trained distance.
    """
    figure = new_figure(9.0, 3.2)
    axes = figure.subplots(1, len(DIRECTIONS), sharey=True)
    for axis, name in zip(axes, DIRECTIONS):
        for reading, directions in errors.items():
            color, dashes, marker = READINGS[reading]
            axis.plot(directions[name]['flow'], dashes, marker=marker,
                      markersize=3, color=color,
                      label=f'linear flow ({reading})')
        axis.plot(directions[name]['constant'], ':', color=GREEN, marker='s',
                  markersize=3, label='constant (A = B = 0)')
        axis.axhline(1, color=GREY, linewidth=0.8, label='mean feature')
        if trained[name] is not None:
            axis.axvline(trained[name], color=GREY, linewidth=0.8,
                         linestyle=':', label='trained step')
        axis.set(title=name.replace('_', ' '), ylim=(0, 2.5),
                 xlabel='distance in positions')
        axis.xaxis.get_major_locator().set_params(integer=True)
    axes[0].set_ylabel('error / spread of the features')
    axes[-1].legend(*axes[0].get_legend_handles_labels(),
                    loc='upper left', bbox_to_anchor=(1.02, 1))
    return figure
