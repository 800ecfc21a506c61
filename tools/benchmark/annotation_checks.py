# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What the checks of an annotation file cost at COCO's size.

A file of random boxes with outlines is drawn, then read as mmdet reads it and
as ``MatchedCocoDataset`` does (read, checked, mended, indexed), in turn in one
process. The checks alone are timed within the second.
"""
import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from mmdet.datasets.api_wrappers import COCO

from qbheat_mm.annotations import check_annotations, read_annotations
from qbheat_mm.cli import count, report_user_errors
from qbheat_mm.detection.coco_api import index
from qbheat_mm.utils import time_in_turn


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    # Of COCO's train2017.
    parser.add_argument('--images', type=count, default=118287)
    parser.add_argument('--boxes', type=count, default=860001)
    parser.add_argument('--classes', type=count, default=80)
    parser.add_argument('--repeats', type=count, default=3)
    return parser.parse_args()


def draw(args: argparse.Namespace) -> dict:
    """An annotation file's content: boxes in 640x480, outlines of 20 corners.
    """
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
    args = parse_args()
    checks = []

    def ours() -> None:
        content = read_annotations(path)
        start = time.perf_counter()
        checked = check_annotations(content, path)
        checks.append(time.perf_counter() - start)
        checked.report.require()
        index(checked.content)

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, 'instances.json'))
        Path(path).write_text(json.dumps(draw(args)))
        megabytes = Path(path).stat().st_size / 1e6
        times = time_in_turn(
            dict(mmdet=lambda: COCO(path), ours=ours), args.repeats, 'cpu',
            warmups=0)
    medians = {name: statistics.median(t) for name, t in times.items()}
    print(f'{args.images} images, {args.boxes} boxes, {megabytes:.0f} MB, '
          f'median of {args.repeats}')
    print(f'read and indexed by mmdet:      {medians["mmdet"]:6.2f} s')
    print(f'read, checked, mended, indexed: {medians["ours"]:6.2f} s, '
          f'{medians["ours"] - medians["mmdet"]:+.2f} s')
    print(f'the checks alone:               {statistics.median(checks):6.2f} '
          's')


if __name__ == '__main__':
    report_user_errors(main)
