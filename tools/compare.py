# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Compare encoders on your labeled images, and say which to use.

Every encoder stays frozen. On classes, classifiers learn from 30, 120, 480 and
all labels; baselines are thumbnails, HOG (needs scikit-image), random weights.
On boxes (needs mmdet), detectors learn for 120 steps from all training images
and from a tenth of them; baseline: random weights. Writes OUT/index.html, and
OUT/accuracies.csv or OUT/precisions.csv.
"""
import argparse
from pathlib import Path

from qbheat_mm.apis import compare
from qbheat_mm.cli.arguments import add_device
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.errors import UserError


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        'folder', help='what prepare_classes.py or prepare_boxes.py writes, '
        'or reads: folders of classes, or an export of boxes')
    parser.add_argument(
        '--out', type=Path, default='looks/compare', metavar='FOLDER',
        help='defaults to looks/compare')
    parser.add_argument(
        '--encoders', nargs='+', default=[], metavar='NAME=ENCODER',
        help='files such as ours=encoder.safetensors; configs, for their '
        'init_cfg or random weights; timm/NAME or a model name of mmpretrain, '
        'for published weights. NAME= may be left out')
    add_device(parser)
    return parser.parse_args(argv)


def name_encoders(arguments: list[str]) -> dict[str, str]:
    """Split NAME=ENCODER; names default to those of files and models.

    Raises:
        UserError: If two encoders have the same name.
    """
    named = {}
    for argument in arguments:
        name, _, encoder = argument.partition('=')
        if not encoder or Path(argument).is_file():
            name, encoder = Path(argument).stem, argument
        if name in named:
            raise UserError(f'--encoders: two are called {name!r}: write '
                            f'OTHER={encoder}')
        named[name] = encoder
    return named


def main(argv: list[str] | None = None) -> None:
    args = parse_args(argv)
    comparison = compare(args.folder, name_encoders(args.encoders), args.out,
                         args.device)
    print(f'\n{comparison.advice}\n{args.out / "index.html"}')


if __name__ == '__main__':
    report_user_errors(main)
