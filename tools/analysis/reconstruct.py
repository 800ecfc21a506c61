# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Reconstruct images from one quarter.

Pictures show original | visible quarter | reconstruction. By default nothing
is taken from the masked pixels; see docs/analysis.md.
"""
import argparse

import numpy as np

from qbheat_mm.analysis.reconstruction import (
    QUARTERS,
    draw_reconstructions,
    hide,
    reconstruct,
    render,
    trained_positions,
)
from qbheat_mm.analysis.report import Report, Table
from qbheat_mm.cli import count, read_config, report_user_errors
from qbheat_mm.cli.analysis_tool import (
    analysis_parser,
    read_images,
    to_batch,
)
from qbheat_mm.cli.trained_model import build_pretraining, load_pretraining
from qbheat_mm.datasets.image_lists import short_names
from qbheat_mm.models.layers.normalize import Normalization, Normalize

CAPTION = (
    'Each image is reconstructed from the one quarter shown beside it; the '
    'error is the pre-training loss over the three masked quarters. ')
CAPTIONS = dict(
    pixels='The network predicts pixels.',
    contrast='The network predicts patches of zero mean and unit variance '
    '(flat grey has the error 1.0), shown as contrast around mid-grey: '
    'nothing is taken from the masked pixels. ',
    visible='A further column extrapolates brightness and contrast of each '
    'patch from the visible quarter. ',
    true='The column with the dashed frame takes brightness and contrast of '
    'each patch FROM THE MASKED PIXELS (--use-true-patch-statistics): it '
    'shows more than the network predicted.')


def parse_args() -> argparse.Namespace:
    parser = analysis_parser(__doc__)
    parser.add_argument(
        '--positions', nargs='+', choices=QUARTERS,
        help='positions of the visible quarter; by default all that the model '
        'was trained on')
    parser.add_argument(
        '--rows', type=count, default=5, metavar='N',
        help='rows of one picture; defaults to 5')
    parser.add_argument(
        '--use-visible-patch-statistics', action='store_true',
        help='add a reconstruction with brightness and contrast extrapolated '
        'from the visible quarter')
    parser.add_argument(
        '--use-true-patch-statistics', action='store_true',
        help='add a reconstruction with brightness and contrast taken from '
        'the masked pixels, labelled so')
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    cfg = read_config(args.config, args.cfg_options)
    model = build_pretraining(cfg, args.config)
    times = load_pretraining(model, args.checkpoint)
    model.to(args.device)
    normalize = Normalize(Normalization.of(model.data_preprocessor)).to(
        args.device)
    files, images = read_images(args, cfg, model.size_unit)
    positions = args.positions or trained_positions(model)
    columns = ['contrast']
    if args.use_visible_patch_statistics:
        columns.append('visible')
    if args.use_true_patch_statistics:
        columns.append('true')
    if not model.head.norm_pix:
        columns = ['pixels']

    rows, arrays, errors = [], {}, []
    for number, (name, image) in enumerate(
            zip(short_names(files), images), start=1):
        errors.append([name])
        for position in positions:
            found = reconstruct(model, normalize(to_batch([image])), position)
            errors[-1].append(float(found.errors[0]))
            rows.append((
                f'{name}\n{position.replace("_", " ")}\n'
                f'error {errors[-1][-1]:.3f}',
                dict(original=image[..., ::-1],
                     given=hide(found, normalize)[0],
                     **{key: render(found, model, normalize, key)[0]
                        for key in columns})))
            arrays[f'pred_{number}_{position}'] = found.pred[0].cpu().numpy()
            arrays[f'mask_{number}_{position}'] = found.mask[
                0, 0].cpu().numpy().astype(np.uint8)
    report = Report(
        'reconstruction', 'Reconstruction from one quarter',
        (CAPTION + ''.join(CAPTIONS[key] for key in columns)).strip(),
        tables=[Table('Error over the masked patches', [
            'image', *(name.replace('_', ' ') for name in positions)],
            errors)],
        numbers=dict(norm_pix=model.head.norm_pix, statistics=columns,
                     errors={name: dict(zip(positions, values))
                             for name, *values in errors}),
        source=dict(config=args.config, checkpoint=args.checkpoint,
                    images=files, **times))
    report.save(args.out, {
        f'reconstruction_{page:02d}':
        draw_reconstructions(rows[first:first + args.rows])
        for page, first in enumerate(range(0, len(rows), args.rows), start=1)
    }, arrays)


if __name__ == '__main__':
    report_user_errors(main)
