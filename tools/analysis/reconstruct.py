# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Reconstruct images from one quarter.

Pictures show original | visible quarter | reconstruction.

By default nothing is taken from the masked pixels; see docs/analysis.md.
"""
import argparse

import numpy as np

from qbheat_mm.analysis.figures.reconstruction import (
    Row,
    draw_reconstructions,
)
from qbheat_mm.analysis.pixels import PixelSpace
from qbheat_mm.analysis.reconstruction import (
    QUARTERS,
    hide,
    reconstruct,
    render,
    trained_positions,
)
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
)
from qbheat_mm.datasets.image_lists import short_names
from qbheat_mm.models.selfsup import QBHeat

CAPTION = (
    'Each image is reconstructed from the one quarter shown beside it; the '
    'error is the pre-training loss over the three masked quarters. ')
CAPTION_NORM_PIX = (
    'The network predicts patches of zero mean and unit variance (flat grey '
    'has the error 1.0). The reconstruction shows just that, as contrast around '
    'mid-grey: nothing is taken from the masked pixels. ')
CAPTION_VISIBLE = (
    'A further column gives each patch a brightness and a contrast that are '
    'extrapolated from the visible quarter. ')
CAPTION_TRUE = (
    'The column with the dashed frame takes the brightness and the contrast '
    'of each patch FROM THE MASKED PIXELS, as was asked for by '
    '--use-true-patch-statistics: it shows more than the network predicted.')


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = analysis_parser(__doc__)
    parser.add_argument(
        '--positions', nargs='+', choices=QUARTERS,
        help='positions of the visible quarter; by default all that the model '
        'was trained on')
    parser.add_argument(
        '--rows', type=count, default=5, metavar='N',
        help='rows in one picture; defaults to 5')
    parser.add_argument(
        '--use-visible-patch-statistics', action='store_true',
        help='show also a reconstruction whose brightness and contrast are '
        'extrapolated from the visible quarter')
    parser.add_argument(
        '--use-true-patch-statistics', action='store_true',
        help='show also a reconstruction whose brightness and contrast are '
        'taken from the masked pixels, labelled so')
    return parser.parse_args()


def columns_of(norm_pix: bool, args) -> dict:
    """Ways to show the reconstruction: title's key to statistics."""
    if not norm_pix:
        return dict(pixels='contrast')
    wanted = dict(contrast=True, visible=args.use_visible_patch_statistics,
                  true=args.use_true_patch_statistics)
    return {key: key for key, asked in wanted.items() if asked}


def reconstruct_image(name: str, image: np.ndarray, model: QBHeat,
                      positions: list,
                      columns: dict) -> tuple[list, list]:
    """Rows of the picture and the reconstructions of one image."""
    pixels = PixelSpace(model.data_preprocessor)
    inputs = pixels.normalize(as_batch([image]))
    rows, reconstructions = [], []
    for position in positions:
        reconstruction = reconstruct(model, inputs, position)
        pictures = {
            key: render(reconstruction, model, pixels, statistics)[0]
            for key, statistics in columns.items()
        }
        pictures.update(original=image[..., ::-1],
                        given=hide(reconstruction, pixels)[0])
        rows.append(Row(f'{name}\n{position.replace("_", " ")}',
                        float(reconstruction.errors[0]), pictures))
        reconstructions.append(reconstruction)
    return rows, reconstructions


def caption_of(columns: dict) -> str:
    """What the columns show."""
    texts = dict(contrast=CAPTION_NORM_PIX, visible=CAPTION_VISIBLE,
                 true=CAPTION_TRUE)
    return (CAPTION + ''.join(
        text for key, text in texts.items() if key in columns)).strip()


def main() -> None:
    """Reconstruct."""
    args = parse_args()
    cfg = read_settings(args)
    model = build_pretraining(cfg, args.config)
    epoch = load_pretraining(model, args.checkpoint)
    model.to(args.device)
    files, images = read_images(args, cfg, model.size_unit)
    positions = args.positions or trained_positions(model)
    columns = columns_of(model.head.norm_pix, args)

    rows, arrays, errors = [], {}, []
    names = short_names(files)
    for number, (name, image) in enumerate(zip(names, images), start=1):
        new_rows, reconstructions = reconstruct_image(
            name, image, model, positions, columns)
        rows += new_rows
        errors.append([row.error for row in new_rows])
        for position, reconstruction in zip(positions, reconstructions):
            pred = reconstruction.pred[0].cpu().numpy()
            arrays[f'pred_{number}_{position}'] = pred
            arrays[f'mask_{number}_{position}'] = reconstruction.mask[
                0, 0].cpu().numpy().astype(np.uint8)
    table = Table('Error over the masked patches',
                  ['image', *(position.replace('_', ' ') for position in positions)],
                  [[name, *row] for name, row in zip(names, errors)])
    report = Report(
        'reconstruction', 'Reconstruction from one quarter',
        caption_of(columns), tables=[table],
        numbers=dict(
            norm_pix=model.head.norm_pix,
            statistics=list(columns.values()),
            errors={name: dict(zip(positions, row))
                    for name, row in zip(names, errors)}),
        source=dict(config=args.config, checkpoint=args.checkpoint,
                    images=files, **epoch))
    pages = range(0, len(rows), args.rows)
    write(args.out, report, {
        f'reconstruction_{page:02d}':
        draw_reconstructions(rows[first:first + args.rows])
        for page, first in enumerate(pages, start=1)
    }, arrays)
    print_tables(report)


if __name__ == '__main__':
    report_user_errors(main)
