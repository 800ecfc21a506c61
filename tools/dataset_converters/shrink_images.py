# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Copy an image folder with images no larger than training needs.

Decoding is most of what an image costs on its way to the network, and grows
with its pixels. The copy holds the same folders, its images are JPEG files
upright by their EXIF orientation. Run it again to go on after a kill, or for
images that were added. Boxes and masks are not shrunk with them: it is for
pre-training and classification.
"""
import argparse
import os
import sys
from collections import Counter

from mmengine.utils import ProgressBar

from qbheat_mm.cli import count, report_user_errors
from qbheat_mm.datasets.shrinking import plan, shrink, summary
from qbheat_mm.errors import UserError


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('source', help='folder of images, at any depth')
    parser.add_argument('target', help='where to write; made if needed')
    parser.add_argument(
        '--short-side', type=count, default=320,
        help='pixels of the shorter side; by default 320, of which a crop of '
        'half the image is 226 wide')
    parser.add_argument('--quality', type=count, default=90,
                        help='of JPEG, 1 to 100; by default 90')
    parser.add_argument('--processes', type=count, default=os.cpu_count())
    return parser.parse_args()


def main() -> None:
    """Shrink."""
    args = parse_args()
    if args.quality > 100:
        raise UserError(f'--quality={args.quality} must be at most 100')
    outcomes = Counter()
    names = plan(args.source, args.target)
    bar = ProgressBar(len(names))
    for outcome in shrink(args.source, args.target, args.short_side,
                          args.quality, args.processes, names):
        if outcome.startswith('image '):
            print(f'\n{outcome}: left out', file=sys.stderr)
        outcomes[outcome] += 1
        bar.update()
    print(f'\n{summary(outcomes)}: {args.target}')


if __name__ == '__main__':
    report_user_errors(main)
