# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Time of reading an annotation file of COCO's size.

mmdet reads and indexes a random file; ``MatchedCocoDataset`` reads, checks
and indexes it.
"""
import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
from common import make_parser, medians, parse
from mmdet.datasets.api_wrappers import COCO

from qbheat_mm.cli import count, report_user_errors
from qbheat_mm.datasets.coco_check import load_coco
from qbheat_mm.detection.coco import index_coco


def draw(args: argparse.Namespace) -> dict:
    """Boxes in images of 640x480, with outlines of 20 corners."""
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
    return dict(
        images=[dict(id=i, file_name=f'{i:012}.jpg', width=640, height=480)
                for i in range(args.images)],
        annotations=annotations,
        categories=[dict(id=i, name=f'class {i}')
                    for i in range(args.classes)])


def main() -> None:
    """Measure; the defaults are the numbers of COCO's train2017."""
    parser = make_parser(__doc__, repeats=3)
    parser.add_argument('--images', type=count, default=118287)
    parser.add_argument('--boxes', type=count, default=860001)
    parser.add_argument('--classes', type=count, default=80)
    args = parse(parser)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, 'instances.json'))
        Path(path).write_text(json.dumps(draw(args)))
        megabytes = Path(path).stat().st_size / 1e6
        times = medians(dict(
            mmdet=lambda: COCO(path),
            ours=lambda: index_coco(load_coco(path)[0])), args, warmups=0)
    print(f'{args.images} images, {args.boxes} boxes, {megabytes:.0f} MB')
    for name, seconds in times.items():
        ratio = seconds / times['mmdet']
        print(f'{name}: {seconds:.2f} s ({ratio:.2f} of mmdet)')


if __name__ == '__main__':
    report_user_errors(main)
