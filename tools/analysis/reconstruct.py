# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Reconstruct images from one quarter.

Pictures show original | visible quarter | reconstruction. By default nothing
is taken from the masked pixels; see docs/analysis.md.
"""
import argparse

from qbheat_mm.analysis import reconstruction
from qbheat_mm.cli.analysis_tool import load_run, to_batch
from qbheat_mm.cli.arguments import analysis_parser
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.datasets import short_names
from qbheat_mm.report import Report, Table

CAPTION = (
    'Each image is reconstructed from the one quarter shown next to it; the '
    'error is the pre-training loss over the three masked quarters. Look for '
    'outlines and shading that continue out of the visible quarter. The rest '
    'is pale and blurred by design: the squared error is lowest for the mean '
    'of everything that could be there. Sharper pictures do not mean better '
    'features. ')
CAPTIONS = dict(
    pixels='The network predicts pixels.',
    contrast='The network predicts patches of zero mean and unit variance '
    '(flat gray has an error of 1), drawn as contrast around mid-gray: '
    'nothing is taken from the masked pixels. ',
    visible='The next column extrapolates the brightness and contrast of each '
    'patch from the visible quarter. ',
    true='The column with the dashed frame takes the brightness and contrast '
    'of each patch FROM THE MASKED PIXELS (--use-true-patch-statistics): it '
    'shows more than the network predicted.')
ROWS = 5  # of one picture


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    parser = analysis_parser(__doc__)
    parser.add_argument(
        '--positions', nargs='+', choices=reconstruction.QUARTERS,
        help='positions of the visible quarter; defaults to those trained on')
    parser.add_argument(
        '--use-visible-patch-statistics', dest='statistics',
        action='append_const', const='visible', default=['contrast'],
        help='add a reconstruction with brightness and contrast extrapolated '
        'from the visible quarter')
    parser.add_argument(
        '--use-true-patch-statistics', dest='statistics',
        action='append_const', const='true',
        help='add a reconstruction with brightness and contrast taken from '
        'the masked pixels, labeled so')
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    args = parse_args(argv)
    model, normalize, files, images = load_run(args)
    positions = args.positions or reconstruction.trained_positions(model)
    columns = args.statistics if model.head.norm_pix else ['pixels']
    rows, arrays, errors = [], {}, {}
    for number, (name, image) in enumerate(
            zip(short_names(files), images), start=1):
        errors[name] = {}
        for position in positions:
            result = reconstruction.reconstruct(
                model, normalize(to_batch([image])), position)
            error = errors[name][position] = float(result.errors[0])
            pictures = dict(original=image[..., ::-1],
                            given=reconstruction.hide(result, normalize)[0])
            for key in columns:
                pictures[key] = reconstruction.render(
                    result, model, normalize, key)[0]
            rows.append((
                f'{name}\n{position.replace("_", " ")}\nerror {error:.3f}',
                pictures))
            arrays[f'pred_{number}_{position}'] = result.pred[0].cpu()
            arrays[f'mask_{number}_{position}'] = result.mask[0, 0].cpu()
    figures = {}
    for first in range(0, len(rows), ROWS):
        figures[f'reconstruction_{first // ROWS + 1:02d}'] = (
            reconstruction.draw_reconstructions(rows[first:first + ROWS]))
    report = Report(
        'reconstruction', 'Reconstruction from one quarter',
        (CAPTION + ''.join(CAPTIONS[key] for key in columns)).strip(),
        tables=[Table('Error over the masked patches', [
            'image', *(position.replace('_', ' ') for position in positions)],
            [[name, *row.values()] for name, row in errors.items()])],
        numbers=dict(statistics=columns, errors=errors))
    report.save(args.out, figures, arrays)


if __name__ == '__main__':
    report_user_errors(main)
