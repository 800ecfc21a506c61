# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Roll the learned linear system out from one position of the feature map.

Shows z(x, y) = exp(Ax) exp(By) z(0, 0) beside the encoder's real features,
and the error by distance over all starts and images.
"""
import argparse

import torch

from qbheat_mm.analysis.features import projected_features
from qbheat_mm.analysis.figures.heat_flow import (
    Rollout,
    draw_errors,
    draw_rollouts,
)
from qbheat_mm.analysis.heat_flow import (
    READINGS,
    Flow,
    error_by_distance,
    principal_colours,
    roll_out,
)
from qbheat_mm.analysis.matrices import SCALES, learned_matrices
from qbheat_mm.analysis.pixels import PixelSpace
from qbheat_mm.analysis.report import Report, Table
from qbheat_mm.cli import count, report_user_errors
from qbheat_mm.cli.analysis_tool import (
    analysis_parser,
    as_batch,
    print_tables,
    read_images,
    read_settings,
    write,
)
from qbheat_mm.cli.trained_model import (
    build_pretraining,
    load_pretraining,
    require_matrices,
)
from qbheat_mm.datasets.image_lists import spread
from qbheat_mm.errors import UserError

CAPTION = (
    'Colours are the first three principal components of the real features of '
    'each image; the framed position is the start z(0, 0), from which the '
    'learned A and B alone make the rest. "exact" is the flow whose step is '
    'the trained prediction I + M; "euler" has A = M / Δ. Errors are averages '
    'over all starts and images, relative to the spread of the features: 1 is '
    'as bad as the mean feature everywhere; curves that leave the panel rise '
    'on. Training compares pixels, never '
    'features, so that nothing forces these errors to be small.')


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = analysis_parser(__doc__)
    parser.add_argument(
        '--scale', choices=tuple(SCALES),
        help='whose A and B to use; by default those of the quarter step, '
        'where the model has one')
    parser.add_argument(
        '--readings', nargs='+', choices=READINGS, default=READINGS,
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


def choose_scale(matrices: dict, wanted: str | None) -> str:
    """The scale whose matrices are used."""
    scale = wanted or next(iter(matrices))
    if scale not in matrices:
        raise UserError(f'--scale {wanted}: this model has only matrices of '
                        f'the {next(iter(matrices))} step (model.position)')
    return scale


def roll_out_image(field: torch.Tensor, flows: dict, start: tuple,
                   per_step: tuple) -> dict:
    """Fields of one image by reading, from ``start`` over the whole map."""
    height, width = field.shape[:2]
    column, row = start
    if not (0 <= column < width and 0 <= row < height):
        raise UserError(f'--start {column} {row}: the feature map has '
                        f'{width} columns and {height} rows')
    steps_x = [(x - column) / per_step[0] for x in range(width)]
    steps_y = [(y - row) / per_step[1] for y in range(height)]
    return {
        reading: roll_out(field[row, column], flow_x, flow_y, steps_x, steps_y)
        for reading, (flow_x, flow_y) in flows.items()
    }


def trained_distances(per_step: tuple) -> dict:
    """Positions over which training predicts, by direction."""
    x, y = map(round, per_step)
    return dict(right=x, down=y, right_down=x if x == y else None)


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


def numbers_of(flows: dict, errors: dict) -> dict:
    """Errors by distance and what makes the exact reading inexact."""
    numbers = dict(errors={
        reading: {name: {key: value.tolist() for key, value in found.items()}
                  for name, found in directions.items()}
        for reading, directions in errors.items()})
    if 'exact' in flows:
        numbers['negative_eigenvalues'] = {
            name: flow.negative_eigenvalues
            for name, flow in zip('AB', flows['exact'])}
    return numbers


def main() -> None:
    """Roll out."""
    args = parse_args()
    cfg = read_settings(args)
    model = build_pretraining(cfg, args.config)
    require_matrices(model, args.config)
    epoch = load_pretraining(model, args.checkpoint)
    matrices = learned_matrices(model.predictor)
    scale = choose_scale(matrices, args.scale)
    model.to(args.device)
    files, images = read_images(args, cfg, model.size_unit)
    inputs = PixelSpace(model.data_preprocessor).normalize(as_batch(images))
    fields = projected_features(model, inputs, args.by_quarter).cpu()

    step = SCALES[scale][1]
    per_step = (fields.shape[2] * step, fields.shape[1] * step)
    flows = {
        reading: [Flow(matrices[scale][name], reading)
                  for name in ('right', 'down')]
        for reading in args.readings
    }
    errors = {
        reading: error_by_distance(fields, *flow, per_step)
        for reading, flow in flows.items()
    }
    trained = trained_distances(per_step)
    rollouts, arrays = [], {}
    for number in spread(range(len(images)), args.rows):
        found = roll_out_image(fields[number], flows, tuple(args.start),
                               per_step)
        colours = principal_colours(fields[number], *found.values())
        rollouts.append(Rollout(images[number][..., ::-1], dict(zip(
            ['encoder\'s features',
             *(f'linear flow ({reading})' for reading in found)],
            (colour.numpy() for colour in colours))), tuple(args.start)))
        arrays[f'features_{number}'] = fields[number].numpy()
        for reading, field in found.items():
            arrays[f'flow_{reading}_{number}'] = field.float().numpy()

    report = Report(
        'heat_flow', 'Heat flow: the learned linear system, solved', CAPTION,
        tables=[error_table(errors, trained)],
        numbers=dict(
            scale=scale, positions_per_step=per_step, start=list(args.start),
            by_quarter=args.by_quarter, **numbers_of(flows, errors)),
        source=dict(config=args.config, checkpoint=args.checkpoint,
                    images=files, **epoch))
    write(args.out, report, dict(
        heat_flow=draw_rollouts(rollouts),
        heat_flow_error=draw_errors(errors, trained)), arrays)
    print_tables(report)


if __name__ == '__main__':
    report_user_errors(main)
