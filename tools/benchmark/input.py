# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Images per second of a training pipeline.

Runs a config's training pipeline on JPEG files in one thread, as a worker of
the data loader does: as it is, with mmpretrain's transforms instead of ours,
and decoding alone, the upper limit of reading JPEG files on the CPU.
"""
import argparse
import os
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path

import common
import cv2
import numpy as np
from mmcv.transforms import Compose
from mmpretrain.registry import TRANSFORMS
from PIL import Image

from projects.drawn_world import TextureBank, detection_scene
from qbheat_mm.cli import count, read_config, report_user_errors
from qbheat_mm.datasets import find_images

# Settings that mmpretrain's transforms don't know.
OURS = ('type', '_scope_', 'ignore_empty', 'oversampling', 'backend_args')


def parse_args() -> argparse.Namespace:
    parser = common.make_parser(__doc__, repeats=7)
    parser.add_argument('--config', default=str(common.PRETRAINING))
    parser.add_argument(
        '--folder', help='folder of JPEG files; defaults to drawn ones')
    parser.add_argument(
        '--size', type=count, nargs=2, default=(500, 375),
        metavar=('WIDTH', 'HEIGHT'), help='size of drawn files')
    parser.add_argument('--images', type=count, default=64)
    return common.parse(parser)


def draw(folder: str, args: argparse.Namespace) -> list[str]:
    """Save drawn scenes as JPEG files of quality 90; return their paths."""
    rng, bank = np.random.default_rng(0), TextureBank()
    width, height = args.size
    paths = []
    for i in range(args.images):
        scene = detection_scene(rng, bank, 256).image
        picture = Image.fromarray(scene).resize((width, height))
        paths.append(os.path.join(folder, f'{i:05}.jpg'))
        picture.save(paths[-1], quality=90)
    return paths


def to_mmpretrain(step: dict) -> list[dict]:
    """Replace a step of ours by those of mmpretrain's recipes."""
    settings = {key: value for key, value in step.items() if key not in OURS}
    if settings.get('interpolation') == 'random':
        settings['interpolation'] = 'bicubic'
    crop = dict(type='RandomResizedCrop', backend='pillow')
    if step['type'] == 'LoadRandomResizedCrop':
        return [dict(type='LoadImageFromFile'), {**crop, **settings}]
    if step.get('_scope_') != 'qbheat_mm':
        return [step]
    if step['type'] == 'RandomResizedCrop':
        return [{**crop, **settings}]
    return [dict(settings, type=step['type'])]


def over(items: list, run: Callable) -> common.Step:
    """Make a step that runs all items and keeps no result."""
    return lambda: deque(map(run, items), maxlen=0)


def main() -> None:
    args = parse_args()
    cv2.setNumThreads(args.threads)
    steps = read_config(args.config).train_dataloader.dataset.pipeline
    replaced = [new for step in steps for new in to_mmpretrain(step)]
    ours, theirs = (Compose([TRANSFORMS.build(step) for step in each])
                    for each in (steps, replaced))
    with tempfile.TemporaryDirectory() as folder:
        paths = (find_images([args.folder])[:args.images] if args.folder
                 else draw(folder, args))
        contents = [np.fromfile(path, np.uint8) for path in paths]
        times = common.medians({
            'ours': over(paths, lambda path: ours(dict(img_path=path))),
            'mmpretrain': over(
                paths, lambda path: theirs(dict(img_path=path))),
            'decoding alone': over(contents, lambda content: cv2.imdecode(
                content, cv2.IMREAD_COLOR)),
        }, args, warmups=1)
        shape = cv2.imdecode(contents[0], cv2.IMREAD_COLOR).shape
    print(f'{Path(args.config).stem}\n{len(paths)} JPEG files, the first '
          f'{shape[1]}x{shape[0]}, {args.threads} threads, median of '
          f'{args.repeats}')
    for name, seconds in times.items():
        print(f'{name:<15}{len(paths) / seconds:7.0f} images/s, '
              f'{times["mmpretrain"] / seconds:.2f} of mmpretrain')


if __name__ == '__main__':
    report_user_errors(main)
