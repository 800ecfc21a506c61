# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Roll the learned linear system out from one position of the feature map.

Shows z(x, y) = exp(Ax) exp(By) z(0, 0) beside the encoder's real features,
and the error by distance over all starts and images.
"""
import argparse

import torch

from qbheat_mm.analysis.heat_flow import (
    READINGS,
    Flow,
    draw_errors,
    draw_rollouts,
    error_by_distance,
    principal_colors,
    projected_features,
    roll_out,
)
from qbheat_mm.analysis.matrices import SCALES, learned_matrices
from qbheat_mm.analysis.report import Report, Table
from qbheat_mm.cli import count, report_user_errors
from qbheat_mm.cli.analysis_tool import analysis_parser, load_run, to_batch
from qbheat_mm.datasets import spread
from qbheat_mm.errors import UserError

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


def parse_args() -> argparse.Namespace:
    parser = analysis_parser(__doc__)
    parser.add_argument(
        '--scale', choices=tuple(SCALES),
        help='whose A and B to use; by default those of the quarter step, '
        'if the model has one')
    parser.add_argument(
        '--readings', nargs='+', choices=tuple(READINGS), default=[*READINGS],
        help='how A is read from the learned matrix; both by default')
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
    return parser.parse_args()


def error_table(errors: dict, trained: dict) -> Table:
    """Errors next to the start and at the trained distances."""
    table = Table('Error / spread of the features', [
        'direction', 'distance (positions)',
        *(f'flow ({reading})' for reading in errors), 'constant (A = B = 0)'])
    for name, step in trained.items():
        found = [error[name] for error in errors.values()]
        cells = [error['flow'] for error in found] + [found[0]['constant']]
        for distance in sorted({1, step or 1}):
            if distance < len(cells[0]):
                table.rows.append([name.replace('_', ' '), distance, *(
                    float(cell[distance]) for cell in cells)])
    return table


def main() -> None:
    args = parse_args()
    model, normalize, _, images = load_run(args, linear=True)
    matrices = learned_matrices(model.predictor)
    scale = args.scale or next(iter(matrices))
    fields = projected_features(model, normalize(to_batch(images)),
                                args.by_quarter).cpu()
    height, width = fields.shape[1:3]
    column, row = args.start
    if not (0 <= column < width and 0 <= row < height):
        raise UserError(f'--start {column} {row}: the feature map has '
                        f'{width} columns and {height} rows')

    step_x, step_y = width * SCALES[scale], height * SCALES[scale]
    flows = {reading: [Flow(matrices[scale][name], reading)
                       for name in ('right', 'down')]
             for reading in args.readings}
    errors = {reading: error_by_distance(fields, *flow, (step_x, step_y))
              for reading, flow in flows.items()}
    trained = dict(right=round(step_x), down=round(step_y),
                   right_down=round(step_x) if step_x == step_y else None)
    rows, arrays = [], {}
    for number in spread(range(len(images)), args.rows):
        found = {"encoder's features": fields[number], **{
            f'linear flow ({reading})': roll_out(
                fields[number, row, column], *flow,
                [(x - column) / step_x for x in range(width)],
                [(y - row) / step_y for y in range(height)])
            for reading, flow in flows.items()}}
        colors = principal_colors(*found.values())
        rows.append({'image': images[number][..., ::-1],
                     **dict(zip(found, map(torch.Tensor.numpy, colors)))})
        arrays |= dict(zip(
            [f'features_{number}',
             *(f'flow_{reading}_{number}' for reading in flows)],
            (field.float() for field in found.values())))
    report = Report(
        'heat_flow', 'Heat flow: the learned linear system, solved', CAPTION,
        [error_table(errors, trained)],
        dict(scale=scale, positions_per_step=[step_x, step_y],
             errors=errors))
    report.save(args.out, dict(
        heat_flow=draw_rollouts(rows, (column, row)),
        heat_flow_error=draw_errors(errors, trained)), arrays)


if __name__ == '__main__':
    report_user_errors(main)
