# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Copy an image folder, shrunk to the size that training needs.

Decoding is most of the cost of an image in training. The copy has the same
subfolders and JPEG files, with EXIF rotation applied; files of other formats
get the extension .jpg in addition. Run it again to continue or to add images.
Boxes and masks are not scaled: use it for pre-training and classification.
"""
import argparse
import os.path as osp
import shutil
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from joblib import cpu_count
from mmengine.utils import track_iter_progress
from PIL import Image

from qbheat_mm.cli.arguments import count
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.datasets import ImageError, find_images, read_image
from qbheat_mm.errors import UserError
from qbheat_mm.utils.atomic_write import atomic_write


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('source', help='folder of images, at any depth')
    parser.add_argument('target', help='where to write; created if needed')
    parser.add_argument(
        '--short-side', type=count, default=320,
        help='pixels of the shorter side (default: 320; a crop of half the '
        'image is then 226 wide)')
    parser.add_argument('--quality', type=int, choices=range(1, 101),
                        metavar='1-100', default=90,
                        help='JPEG quality (default: 90)')
    parser.add_argument('--threads', type=count, default=cpu_count())
    return parser.parse_args()


def plan(source: str, target: str) -> list[tuple[str, str]]:
    """Pair each image of a folder with the file to write."""
    if not osp.isdir(source):
        raise UserError(f"'{source}' is not a folder")
    paths = [osp.realpath(source), osp.realpath(target)]
    if osp.commonpath(paths) in paths:
        raise UserError(f"target '{target}' must lie outside of '{source}', "
                        'and not around it')
    pairs = []
    for path in find_images([source]):
        name = osp.relpath(path, source)
        if not name.lower().endswith(('.jpg', '.jpeg')):
            name += '.jpg'
        pairs.append((path, osp.join(target, name)))
    return pairs


def shrink(paths: tuple[str, str], short_side: int, quality: int) -> str:
    """Shrink one image; return what was done, or the error."""
    source, target = paths
    if osp.exists(target):
        return 'already there'
    try:
        image = Image.fromarray(read_image(source)[..., ::-1])
        ratio = short_side / min(image.size)
        with open(source, 'rb') as file, atomic_write(target) as part:
            if ratio >= 1 and file.read(3) == b'\xff\xd8\xff':
                shutil.copyfile(source, part)
                return 'small already'
            if ratio < 1:
                image = image.resize(
                    [max(round(side * ratio), 1) for side in image.size],
                    Image.Resampling.BICUBIC)
            image.save(part, 'JPEG', quality=quality)
    except ImageError as error:
        return str(error)
    except OSError as error:  # longer than JPEG allows, or a full disk
        return str(ImageError(source, f'cannot be written: {error}'))
    return 'shrunk'


def main() -> None:
    """Shrink."""
    args = parse_args()
    pairs = plan(args.source, args.target)
    one = partial(shrink, short_side=args.short_side, quality=args.quality)
    outcomes = Counter()
    # Decoding, resizing and encoding release the interpreter's lock.
    with ThreadPoolExecutor(args.threads) as pool:
        results = pool.map(one, pairs)
        for outcome in track_iter_progress((results, len(pairs))):
            if outcome.startswith('image '):
                print(f'\nskipped: {outcome}', file=sys.stderr)
                outcome = 'skipped'
            outcomes[outcome] += 1
    done = ', '.join(f'{n} {what}' for what, n in outcomes.items())
    print(f'\n{done}: {args.target}')
    if outcomes['skipped'] == len(pairs):
        raise UserError(f"no image of '{args.source}' could be shrunk")


if __name__ == '__main__':
    report_user_errors(main)
