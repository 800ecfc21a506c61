# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Roll the learned linear system out from one position of the feature map.

Shows z(x, y) = exp(Ax) exp(By) z(0, 0) next to the encoder's real features,
and the error by distance over all starts and images.
"""
import argparse
from typing import NamedTuple

import numpy as np
import torch

from qbheat_mm.analysis import heat_flow
from qbheat_mm.analysis.heat_flow import Flow, roll_out
from qbheat_mm.analysis.matrices import SCALES, learned_matrices
from qbheat_mm.cli.analysis_tool import load_run, to_batch
from qbheat_mm.cli.arguments import analysis_parser, count
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.datasets import spread
from qbheat_mm.errors import UserError
from qbheat_mm.report import Report, Table

CAPTION = (
    'From the features at the framed position alone, the learned A and B '
    'compute all others. Colors are the first three principal components of '
    'the real features. "exact" is the flow whose step is the trained '
    'prediction I + M; "euler" has A = M / Δ. Compare the flow with the '
    'constant: copying the start usually scores better. Training compares '
    'pixels, never features, so do not conclude from a large error that '
    'pre-training failed, nor from smooth colors that features obey the heat '
    'equation. Errors are means over all starts and images, relative to the '
    'spread of the features; 1 is as bad as predicting their mean.')


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    parser = analysis_parser(__doc__)
    parser.add_argument(
        '--scale', choices=SCALES,
        help='step whose A and B to use; defaults to the quarter step if the '
        'model has one')
    parser.add_argument(
        '--readings', nargs='+', choices=heat_flow.READINGS,
        default=[*heat_flow.READINGS],
        help='how to read A from the learned matrix; defaults to both')
    parser.add_argument(
        '--start', type=int, nargs=2, default=(0, 0),
        metavar=('COLUMN', 'ROW'),
        help='position of the start; defaults to the top left corner')
    parser.add_argument(
        '--by-quarter', action='store_true',
        help='encode the four quarters one by one, as in pre-training')
    parser.add_argument(
        '--rows', type=count, default=4, metavar='N',
        help='images in the picture; defaults to 4')
    return parser.parse_args(argv)


def error_table(errors: dict, trained: dict) -> Table:
    """Errors next to the start and at the trained distances."""
    table = Table('Error / spread of the features', [
        'direction', 'distance (positions)',
        *(f'flow ({reading})' for reading in errors), 'constant (A = B = 0)'])
    for name, step in trained.items():
        curves = [directions[name]['flow'] for directions in errors.values()]
        # It is the same in all readings.
        curves.append(next(iter(errors.values()))[name]['constant'])
        for distance in sorted({1, step or 1}):
            if distance < len(curves[0]):
                table.rows.append([name.replace('_', ' '), distance, *(
                    float(curve[distance]) for curve in curves)])
    return table


class Flows(NamedTuple):
    """The flows along both axes by one reading of A and B."""
    right: Flow
    down: Flow


def solve(real: torch.Tensor, flows: dict[str, Flows],
          start: tuple[int, int], step: tuple[float, float]
          ) -> dict[str, torch.Tensor]:
    """Solve the flows from the start of an image's features, (H, W, D).

    Returns:
        dict[str, torch.Tensor]: Fields (H, W, D): ``'features'``, the real
        ones, and ``'flow_exact'`` ... by reading.
    """
    (height, width), (column, row) = real.shape[:2], start
    steps_x = (np.arange(width) - column) / step[0]
    steps_y = (np.arange(height) - row) / step[1]
    fields = {'features': real}
    for reading, flow in flows.items():
        fields[f'flow_{reading}'] = roll_out(
            real[row, column], flow.right, flow.down, steps_x.tolist(),
            steps_y.tolist())
    return fields


def require_start(start: tuple[int, int], height: int, width: int) -> None:
    """Raise UserError if a feature map lacks a position."""
    column, row = start
    if not (0 <= column < width and 0 <= row < height):
        raise UserError(f'--start {column} {row}: the feature map has '
                        f'{width} columns and {height} rows')


def title(field: str) -> str:
    """Return the title of a field in the picture."""
    if field == 'features':
        return "encoder's features"
    return f'linear flow ({field.removeprefix("flow_")})'


def main(argv: list[str] | None = None) -> None:
    args = parse_args(argv)
    model, normalize, _, images = load_run(args, linear=True)
    matrices = learned_matrices(model.predictor)
    scale = args.scale or next(iter(matrices))
    fields = heat_flow.projected_features(
        model, normalize(to_batch(images)), args.by_quarter).cpu()
    height, width = fields.shape[1:3]
    require_start(args.start, height, width)
    step = width * SCALES[scale], height * SCALES[scale]
    flows, errors = {}, {}
    for reading in args.readings:
        flows[reading] = Flows(
            heat_flow.Flow(matrices[scale]['right'], reading),
            heat_flow.Flow(matrices[scale]['down'], reading))
        errors[reading] = heat_flow.error_by_distance(
            fields, *flows[reading], step)
    trained = dict(right=round(step[0]), down=round(step[1]),
                   right_down=round(step[0]) if step[0] == step[1] else None)
    rows, arrays = [], {}
    for number in spread(range(len(images)), args.rows):
        solved = solve(fields[number], flows, args.start, step)
        colors = heat_flow.principal_colors(*solved.values())
        rows.append({'image': images[number][..., ::-1]})
        for (name, field), color in zip(solved.items(), colors):
            rows[-1][title(name)] = color.numpy()
            arrays[f'{name}_{number}'] = field.float()
    report = Report(
        'heat_flow', 'Heat flow: the learned linear system, solved', CAPTION,
        [error_table(errors, trained)],
        dict(scale=scale, positions_per_step=step, errors=errors))
    report.save(args.out, dict(
        heat_flow=heat_flow.draw_rollouts(rows, args.start),
        heat_flow_error=heat_flow.draw_errors(errors, trained)), arrays)


if __name__ == '__main__':
    report_user_errors(main)
