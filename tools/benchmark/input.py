# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Images a second of a training pipeline, beside mmpretrain's and decoding.

The steps of a configuration's training pipeline are run on JPEG files by one
thread, as a worker of the data loader does: as they are, with mmpretrain's
transforms in the place of ours, and decoding alone, which nothing that reads
JPEG files on the CPU can beat. All in turn in one process.
"""
import argparse
import os
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import cv2
import numpy as np
import torch
from common import time_in_turn
from mmcv.transforms import Compose
from mmpretrain.registry import TRANSFORMS
from PIL import Image

import qbheat_mm.datasets  # noqa: F401
from projects.drawn_world import TextureBank, detection_scene
from qbheat_mm.cli import count, read_config, report_user_errors
from qbheat_mm.datasets.image_folder import EXTENSIONS
from qbheat_mm.errors import UserError

CONFIG = (Path(__file__).resolve().parents[2] / 'configs/qbheat' /
          'qbheat_mf-285m_8xb128-amp-coslr-100e_in1k.py')
# Settings that mmpretrain's transforms don't know.
OURS = ('type', '_scope_', 'ignore_empty', 'oversampling', 'backend_args')


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--config', default=str(CONFIG))
    parser.add_argument(
        '--folder', help='of JPEG files; by default they are drawn')
    parser.add_argument(
        '--size', type=count, nargs=2, default=(500, 375),
        metavar=('WIDTH', 'HEIGHT'), help='of drawn files')
    parser.add_argument('--images', type=count, default=64)
    parser.add_argument('--repeats', type=count, default=7)
    return parser.parse_args()


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


def find(folder: str, number: int) -> list[str]:
    """The first files of a folder and those below it."""
    paths = sorted(str(path) for path in Path(folder).rglob('*')
                   if path.suffix.lower() in EXTENSIONS)
    if not paths:
        raise UserError(f"--folder '{folder}' holds no image")
    return paths[:number]


def build(steps: Sequence[dict]) -> Compose:
    return Compose([TRANSFORMS.build(step) for step in steps])


def of_mmpretrain(step: dict) -> list[dict]:
    """The steps of their recipes that stand where one of ours does."""
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


def over(paths: list[str], run: Callable[[str], object]) -> Callable:
    def all_files() -> None:
        for path in paths:
            run(path)

    return all_files


def main() -> None:
    args = parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    steps = read_config(args.config).train_dataloader.dataset.pipeline
    ours, theirs = build(steps), build([
        theirs for step in steps for theirs in of_mmpretrain(step)])
    with tempfile.TemporaryDirectory() as folder:
        paths = find(args.folder, args.images) if args.folder else draw(
            folder, args)
        contents = {path: np.fromfile(path, np.uint8) for path in paths}
        times = time_in_turn({
            'ours': over(paths, lambda path: ours(dict(img_path=path))),
            'mmpretrain': over(
                paths, lambda path: theirs(dict(img_path=path))),
            'decoding alone': over(paths, lambda path: cv2.imdecode(
                contents[path], cv2.IMREAD_COLOR)),
        }, args.repeats, 'cpu', warmups=1)
        shape = cv2.imdecode(contents[paths[0]], cv2.IMREAD_COLOR).shape
    rates = {name: len(paths) / statistics.median(t)
             for name, t in times.items()}
    print(f'{Path(args.config).stem}\n{len(paths)} JPEG files, the first '
          f'{shape[1]}x{shape[0]}, one thread, median of {args.repeats}')
    for name, rate in rates.items():
        ratio = rate / rates['mmpretrain']
        print(f'{name:<15}{rate:7.0f} images/s, {ratio:.2f} of mmpretrain')


if __name__ == '__main__':
    report_user_errors(main)
