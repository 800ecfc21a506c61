# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Time and peak memory of reading an annotation file of COCO's size.

mmdet reads and indexes a random file; ``MatchedCocoDataset`` reads, checks
and indexes it. Memory is that of a child process each, above its start.
"""
import argparse
import json
import multiprocessing
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from common import make_parser, medians, parse
from mmdet.datasets.api_wrappers import COCO

from qbheat_mm.cli import count, report_user_errors
from qbheat_mm.datasets.coco_check import load_coco
from qbheat_mm.detection.coco import index_coco


def draw(args: argparse.Namespace, path: str) -> None:
    """Write boxes in images of 640x480, with outlines of 20 corners."""
    rng = np.random.default_rng(0)
    corner = rng.uniform(0, 300, (args.boxes, 2)).round(2)
    side = rng.uniform(5, 180, (args.boxes, 2)).round(2)
    outlines = (corner[:, None] + side[:, None] * rng.random(
        (args.boxes, 20, 2))).round(2).reshape(args.boxes, 40)
    image = rng.integers(args.images, size=args.boxes)
    category = rng.integers(args.classes, size=args.boxes)
    annotations = [
        dict(id=i + 1, image_id=int(image[i]), category_id=int(category[i]),
             bbox=[*map(float, corner[i]), *map(float, side[i])],
             area=float(side[i].prod() / 2), iscrowd=0,
             segmentation=[outlines[i].tolist()])
        for i in range(args.boxes)]
    content = dict(
        images=[dict(id=i, file_name=f'{i:012}.jpg', width=640, height=480)
                for i in range(args.images)],
        annotations=annotations,
        categories=[dict(id=i, name=f'class {i}')
                    for i in range(args.classes)])
    Path(path).write_text(json.dumps(content))


def read_theirs(path: str) -> object:
    return COCO(path)


def read_ours(path: str) -> object:
    return index_coco(load_coco(path)[0])


def peak(read: Callable[[str], object], path: str) -> int:
    """Bytes that a process needs at most to read a file."""
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kept = read(path)
    end = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    del kept
    return 1024 * (end - start)


def main() -> None:
    """Measure; the defaults are the numbers of COCO's train2017."""
    parser = make_parser(__doc__, repeats=3)
    parser.add_argument('--images', type=count, default=118287)
    parser.add_argument('--boxes', type=count, default=860001)
    parser.add_argument('--classes', type=count, default=80)
    args = parse(parser)
    readers = dict(mmdet=read_theirs, ours=read_ours)
    # Processes as small as this one, which draws nothing itself.
    children = multiprocessing.get_context('fork').Pool(1, maxtasksperchild=1)
    with tempfile.TemporaryDirectory() as folder, children:
        path = str(Path(folder, 'instances.json'))
        children.apply(draw, (args, path))
        megabytes = Path(path).stat().st_size / 1e6
        peaks = {name: children.apply(peak, (read, path))
                 for name, read in readers.items()}
        times = medians({name: lambda read=read: read(path)
                         for name, read in readers.items()}, args, warmups=0)
    print(f'{args.images} images, {args.boxes} boxes, {megabytes:.0f} MB')
    for name, seconds in times.items():
        print(f'{name}: {seconds:.2f} s ({seconds / times["mmdet"]:.2f} of '
              f'mmdet), {peaks[name] / 1e6:.0f} MB at most '
              f'({peaks[name] / max(peaks["mmdet"], 1):.2f} of mmdet)')


if __name__ == '__main__':
    report_user_errors(main)
