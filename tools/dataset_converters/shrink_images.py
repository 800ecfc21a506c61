# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Copy an image folder with images no larger than training needs.

Decoding is most of what an image costs in training, and grows with its
pixels. The copy has the same subfolders and JPEG files, upright by their EXIF
orientation. Run it again to continue after a kill or to add images. Boxes and
masks are not scaled: use it for pre-training and classification.
"""
import argparse
import os
import os.path as osp
import shutil
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from mmengine.utils import ProgressBar
from PIL import Image

from qbheat_mm.cli import count, report_user_errors
from qbheat_mm.datasets.image_folder import find_images
from qbheat_mm.datasets.images import ImageError, read_image
from qbheat_mm.errors import UserError
from qbheat_mm.utils.atomic_write import atomic_write

LONGEST = 65500  # side of a JPEG file


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('source', help='folder of images, at any depth')
    parser.add_argument('target', help='where to write; created if needed')
    parser.add_argument(
        '--short-side', type=count, default=320,
        help='pixels of the shorter side; by default 320, of which a crop of '
        'half the image is 226 wide')
    parser.add_argument('--quality', type=count, default=90,
                        help='of JPEG, 1 to 100; by default 90')
    parser.add_argument('--processes', type=count, default=os.cpu_count())
    return parser.parse_args()


def plan(source: str, target: str) -> list[tuple[str, str]]:
    """Pair each image of a folder with the file to write."""
    if not osp.isdir(source):
        raise UserError(f"'{source}' is not a folder")
    paths = [osp.realpath(source), osp.realpath(target)]
    if osp.commonpath(paths) in paths:
        raise UserError(f"target '{target}' must lie outside of '{source}', "
                        'and not around it')
    names = {}
    for file in find_images([source]):
        name = osp.relpath(file, source)
        new = f'{osp.splitext(name)[0]}.jpg'
        if new in names:
            raise UserError(f"images '{names[new]}' and '{name}' of "
                            f"'{source}' would both become '{new}': rename "
                            'one')
        names[new] = name
    return [(osp.join(source, name), osp.join(target, new))
            for new, name in names.items()]


def shrink(paths: tuple[str, str], short_side: int, quality: int) -> str:
    """Shrink one image; return what was done, or why it was left out."""
    source, target = paths
    try:
        if osp.exists(target):
            return ('already there' if min(read_size(target)) <= short_side
                    else 'already there, but larger: remove them to shrink '
                    'them again')
        image = Image.fromarray(read_image(source)[..., ::-1])
    except ImageError as error:
        return str(error)
    if max(image.size) > LONGEST:
        return str(ImageError(source, f'is longer than {LONGEST} pixels, the '
                              'most of a JPEG file'))
    ratio = short_side / min(image.size)
    with open(source, 'rb') as file:
        is_jpeg = file.read(3) == b'\xff\xd8\xff'
    with atomic_write(target) as part:
        if ratio >= 1 and is_jpeg:
            shutil.copyfile(source, part)
            return 'small already'
        if ratio < 1:
            width, height = (max(round(side * ratio), 1)
                             for side in image.size)
            image = image.resize((width, height), Image.Resampling.BICUBIC)
        image.save(part, quality=quality)
    return 'shrunk'


def read_size(path: str) -> tuple[int, int]:
    """Width and height from the header of an image."""
    try:
        with Image.open(path) as image:
            return image.size
    except OSError as error:
        raise ImageError(path, 'is there, but is not an image: remove it'
                         ) from error


def main() -> None:
    """Shrink."""
    args = parse_args()
    if args.quality > 100:
        raise UserError(f'--quality={args.quality} must be at most 100')
    pairs = plan(args.source, args.target)
    one = partial(shrink, short_side=args.short_side, quality=args.quality)
    bar, outcomes = ProgressBar(len(pairs)), Counter()
    # Threads of libraries don't survive a fork.
    with ProcessPoolExecutor(args.processes, get_context('spawn')) as pool:
        results = (map(one, pairs) if args.processes == 1 else
                   pool.map(one, pairs, chunksize=8))
        for outcome in results:
            if outcome.startswith('image '):
                print(f'\nleft out: {outcome}', file=sys.stderr)
                outcome = 'left out'
            outcomes[outcome] += 1
            bar.update()
    done = ', '.join(f'{n} {what}' for what, n in outcomes.items())
    print(f'\n{done}: {args.target}')


if __name__ == '__main__':
    report_user_errors(main)
