# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Make the README's picture of what the demo finds: docs/figures/demo.png.

Reads the folder that `make demo` has written.
"""
import argparse
from pathlib import Path

from PIL import Image

from qbheat_mm.cli import report_user_errors
from qbheat_mm.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / 'docs/figures/demo.png'
#: Of the figure, in pixels: sharp at half of it.
WIDTH = 1600


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('folder', nargs='?', type=Path,
                        default=ROOT / 'work_dirs/demo',
                        help='of the demo; defaults to work_dirs/demo')
    parser.add_argument('--out', type=Path, default=FILE)
    return parser.parse_args()


def smaller(file: Path) -> Image.Image:
    """A picture at the figure's width, in a palette.

    That takes a third of the bytes and makes no difference that is seen.

    Raises:
        UserError: If the demo has not come so far.
    """
    if not file.is_file():
        raise UserError(f"'{file}' is not there, which a finished demo has "
                        'drawn: run make demo, or give the folder of one')
    picture = Image.open(file).convert('RGB')
    height = round(picture.height * WIDTH / picture.width)
    return picture.resize((WIDTH, height), Image.Resampling.LANCZOS).quantize(
        256, dither=Image.Dither.NONE)


def main() -> None:
    """Make the figure."""
    args = parse_args()
    figure = smaller(args.folder / 'pictures/detections.png')
    args.out.parent.mkdir(parents=True, exist_ok=True)
    figure.save(args.out, optimize=True)
    print(f'{args.out}: {args.out.stat().st_size // 1024} kB')


if __name__ == '__main__':
    report_user_errors(main)
