# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Paint images from one quarter: original | visible quarter | reconstruction.

By default nothing is taken from the masked pixels; see docs/analysis.md.
"""
import os.path as osp

import numpy as np

from qbheat_mm.analysis.figures.reconstruction import (
    Row,
    draw_reconstructions,
)
from qbheat_mm.analysis.pixels import PixelSpace
from qbheat_mm.analysis.reconstruction import (
    PLACES,
    hide,
    paint,
    render,
    trained_places,
)
from qbheat_mm.analysis.report import Report, Table
from qbheat_mm.launching import report_user_errors
from qbheat_mm.launching.analysis_tool import (
    analysis_parser,
    as_batch,
    print_tables,
    read_images,
    read_settings,
    write,
)
from qbheat_mm.launching.trained_model import (
    build_pretraining,
    load_pretraining,
)

CAPTION = (
    'Each image is painted from the one quarter shown beside it; the error is '
    'the pre-training loss over the three masked quarters. ')
CAPTION_NORM_PIX = (
    'The network paints patches of zero mean and unit variance (flat grey has '
    'the error 1.0). The reconstruction shows just that, as contrast around '
    'mid-grey: nothing is taken from the masked pixels. ')
CAPTION_VISIBLE = (
    'A further column gives each patch a brightness and a contrast that are '
    'extrapolated from the visible quarter. ')
CAPTION_TRUE = (
    'The column with the dashed frame takes the brightness and the contrast '
    'of each patch FROM THE MASKED PIXELS, as was asked for by '
    '--use-true-patch-statistics: it shows more than the network predicted.')


def parse_args(argv=None):
    """Read the command line."""
    parser = analysis_parser(__doc__)
    parser.add_argument(
        '--places', nargs='+', choices=PLACES,
        help='places of the visible quarter; by default all that the model '
        'was trained on')
    parser.add_argument(
        '--rows', type=int, default=5, metavar='N',
        help='rows in one picture; defaults to 5')
    parser.add_argument(
        '--use-visible-patch-statistics', action='store_true',
        help='show also a reconstruction whose brightness and contrast are '
        'extrapolated from the visible quarter')
    parser.add_argument(
        '--use-true-patch-statistics', action='store_true',
        help='show also a reconstruction whose brightness and contrast are '
        'taken from the masked pixels, labelled so')
    return parser.parse_args(argv)


def columns_of(norm_pix: bool, args) -> dict:
    """Ways to show the reconstruction: title's key to statistics."""
    if not norm_pix:
        return dict(pixels='contrast')
    wanted = dict(contrast=True, visible=args.use_visible_patch_statistics,
                  true=args.use_true_patch_statistics)
    return {key: key for key, asked in wanted.items() if asked}


def main(argv=None) -> None:
    """Paint."""
    args = parse_args(argv)
    cfg = read_settings(args)
    model = build_pretraining(cfg, args.config)
    epoch = load_pretraining(model, args.checkpoint)
    model.to(args.device)
    files, images = read_images(args, cfg, model.size_unit)
    pixels = PixelSpace(model.data_preprocessor)
    places = args.places or trained_places(model)
    columns = columns_of(model.head.norm_pix, args)

    rows, table, arrays = [], Table('Error over the masked patches', [
        'image', *places]), {}
    for number, (file, image) in enumerate(zip(files, images)):
        inputs = pixels.normalize(as_batch([image]))
        errors = []
        for place in places:
            painting = paint(model, inputs, place)
            errors.append(float(painting.errors[0]))
            pictures = {
                key: render(painting, model, pixels, statistics)[0]
                for key, statistics in columns.items()
            }
            rows.append(Row(
                f'{osp.basename(file)}\n{place.replace("_", " ")}',
                errors[-1],
                dict(pictures, original=image[..., ::-1],
                     given=hide(painting, pixels)[0])))
            arrays[f'pred_{number}_{place}'] = painting.pred[0].cpu().numpy()
            arrays[f'mask_{number}_{place}'] = painting.mask[
                0].cpu().numpy().astype(np.uint8)
        table.rows.append([osp.basename(file), *errors])

    caption = CAPTION
    if model.head.norm_pix:
        caption += CAPTION_NORM_PIX
        caption += CAPTION_VISIBLE if 'visible' in columns else ''
        caption += CAPTION_TRUE if 'true' in columns else ''
    report = Report(
        'reconstruction', 'Reconstruction from one quarter', caption.strip(),
        tables=[table],
        numbers=dict(
            norm_pix=model.head.norm_pix,
            shown=list(columns),
            errors={file: dict(zip(places, row[1:]))
                    for file, row in zip(files, table.rows)}),
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
