# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Make docs/figures/demo.png, shown in the README, from a finished demo."""
import argparse
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 1600  # pixels, twice the size at which it is shown


def main() -> None:
    """Make the figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('folder', nargs='?', type=Path,
                        default=ROOT / 'work_dirs/demo', help='of the demo')
    parser.add_argument('--out', type=Path,
                        default=ROOT / 'docs/figures/demo.png')
    args = parser.parse_args()
    picture = Image.open(
        args.folder / 'pictures/detections.png').convert('RGB')
    height = round(picture.height * WIDTH / picture.width)
    picture = picture.resize((WIDTH, height), Image.Resampling.LANCZOS)
    # A palette takes a third of the bytes and looks the same.
    picture.quantize(256, dither=Image.Dither.NONE).save(
        args.out, optimize=True)
    print(args.out)


if __name__ == '__main__':
    main()
