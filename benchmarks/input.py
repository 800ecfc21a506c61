# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Images per second of a training pipeline.

Runs a config's training pipeline on JPEG files in one thread, as a worker of
the data loader does: as it is, with mmpretrain's transforms instead of ours,
and decoding alone, the upper limit of reading JPEG files on the CPU.

With ``--workers`` it trains instead, with a model that does nothing: all that
surrounds the step, and what a step of the main process spends on each part.
"""
import argparse
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import common
import cv2
import numpy as np
import torch
from mmcv.transforms import Compose
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.model import BaseModel
from mmengine.registry import MODELS, RUNNERS
from mmpretrain.registry import MODELS as MMPRETRAIN_MODELS
from mmpretrain.registry import TRANSFORMS
from PIL import Image
from torch import nn

from projects.drawn_world import TextureBank, detection_scene
from qbheat_mm.cli.arguments import add_cfg_options, count
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.config.reading import read_config
from qbheat_mm.datasets import find_images

#: Width and height of drawn files.
SIZE = (500, 375)
# Settings that mmpretrain's transforms don't know.
OURS = ('type', '_scope_', 'ignore_empty', 'oversampling', 'backend_args')


def parse_args() -> argparse.Namespace:
    parser = common.make_parser(__doc__, repeats=7)
    parser.add_argument('--config', default=str(common.PRETRAINING))
    parser.add_argument(
        '--folder', help='folder of JPEG files; defaults to drawn ones')
    parser.add_argument(
        '--size', type=count, nargs=2, default=SIZE,
        metavar=('WIDTH', 'HEIGHT'), help='size of drawn files')
    parser.add_argument('--images', type=count, default=64)
    parser.add_argument(
        '--workers', type=int, nargs='+', metavar='NUMBER',
        help='train with so many workers; defaults to no training')
    parser.add_argument(
        '--model', action='store_true', help="train the config's model")
    parser.add_argument(
        '--cache', action='store_true', help='keep decoded images in memory')
    add_cfg_options(parser)
    return common.parse(parser)


def draw(folder: str, images: int, size: Sequence[int]) -> list[str]:
    """Save drawn scenes as JPEG files of quality 90; return their paths."""
    rng, bank = np.random.default_rng(0), TextureBank()
    paths = []
    for i in range(images):
        scene = detection_scene(rng, bank, 256).image
        paths.append(os.path.join(folder, f'{i:05}.jpg'))
        Image.fromarray(scene).resize(tuple(size)).save(paths[-1], quality=90)
    return paths


def image_files(folder: str | None, drawn: str, images: int,
                size: Sequence[int] = SIZE) -> list[str]:
    """List the images of a folder, or draw some into the folder ``drawn``."""
    if folder:
        return find_images([folder])[:images]
    return draw(drawn, images, size)


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


def build_pipeline(steps: list[dict]) -> Compose:
    """Build a pipeline from its settings."""
    return Compose([TRANSFORMS.build(step) for step in steps])


def over(items: list, run: Callable) -> common.Step:
    """Make a step that runs all items and keeps no result."""
    def step() -> None:
        for item in items:
            run(item)

    return step


class Clock:
    """Milliseconds of the main process by part."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Forget all times."""
        self.began = self.last = time.perf_counter()
        self.parts = Counter()

    def ends(self, part: str) -> None:
        """Add the time since the last call to a part."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = time.perf_counter()
        self.parts[part] += 1000 * (now - self.last)
        self.last = now


PARTS = 'waiting', 'hooks', 'preprocessor', 'optimizer'


@MODELS.register_module(force=True)
class Stub(BaseModel):
    """A loss without a model; a CPU doesn't normalize its images either."""

    def __init__(self, data_preprocessor: dict) -> None:
        super().__init__(MMPRETRAIN_MODELS.build(data_preprocessor))
        self.weight = nn.Parameter(torch.zeros(()))
        self.clock = Clock()

    def forward(self, *args, **kwargs) -> dict[str, torch.Tensor]:
        """Return the loss."""
        return dict(loss=self.weight * 1)

    def train_step(self, data: dict, optim_wrapper) -> dict:
        """See ``BaseModel``."""
        self.clock.ends('hooks')
        with optim_wrapper.optim_context(self):
            if self.weight.is_cuda:
                self.data_preprocessor(data, True)
            self.clock.ends('preprocessor')
            loss, log = self.parse_losses(self())
        optim_wrapper.update_params(loss)
        self.clock.ends('optimizer')
        return log


class ClockHook(Hook):
    """Start after the first epoch; end a part before each step.

    Args:
        clock (Clock): The clock.
        part (str): What has ended when this hook's turn comes.
    """

    def __init__(self, clock: Clock, part: str) -> None:
        self.clock, self.part = clock, part

    def before_train_epoch(self, runner) -> None:
        """Start the clock."""
        if runner.epoch == 1:
            self.clock.start()

    def before_train_iter(self, runner, *args, **kwargs) -> None:
        """End the part before the step."""
        self.clock.ends(self.part)

    def after_train_iter(self, runner, *args, **kwargs) -> None:
        """End the part after the step."""
        self.clock.ends('hooks')


class Pace(NamedTuple):
    """The pace of a run, and milliseconds of a step by part."""
    workers: int
    images_per_second: float
    parts: dict[str, float]


def train(cfg: Config, paths: list[str], workers: int, epochs: int,
          with_model: bool = False, cache: bool = False) -> Pace:
    """Train on files, by default a stub of the config's model.

    Args:
        cfg (Config): Config of a pre-training. It is changed.
        paths (list[str]): Image files.
        workers (int): Workers of the data loader.
        epochs (int): Epochs to time, after a first one.
        with_model (bool): Train the config's model. Defaults to False.
        cache (bool): Keep decoded images in memory. Defaults to False.
    """
    loader, batch = cfg.train_dataloader, cfg.train_dataloader.batch_size
    loader.num_workers = workers
    if cache:
        loader.dataset.pipeline[0].cache = 'ram'
    if not with_model:
        cfg.model = dict(
            type='Stub', data_preprocessor=cfg.model.get('data_preprocessor'))
    for name in ('export_encoder', 'checkpoint_match'):
        cfg.default_hooks.pop(name, None)
    cfg.default_hooks.checkpoint.update(interval=-1, save_last=False)
    cfg.custom_hooks = []
    with tempfile.TemporaryDirectory() as folder:
        files = os.path.join(folder, 'images.txt')
        times = -(-4 * batch // len(paths))  # at least four steps an epoch
        Path(files).write_text('\n'.join(paths * times), encoding='utf-8')
        loader.dataset = dict(
            type='NamedImageFolder', ann_file=files, with_label=False,
            pipeline=loader.dataset.pipeline)
        cfg.merge_from_dict(dict(
            work_dir=folder, experiment_name=Path(folder).name,
            log_level='ERROR', train_cfg=dict(max_epochs=1 + epochs),
            val_cfg=None, val_dataloader=None, val_evaluator=None))
        runner = RUNNERS.build(cfg)
        clock = Clock() if with_model else runner.model.clock
        runner.register_hook(ClockHook(clock, 'waiting'), 'HIGHEST')
        runner.register_hook(ClockHook(clock, 'hooks'), 'LOWEST')
        runner.train()
    steps = epochs * len(runner.train_dataloader)
    return Pace(runner.train_dataloader.num_workers,
                steps * batch / (clock.last - clock.began),
                {part: clock.parts[part] / steps for part in PARTS})


def print_pace(pace: Pace) -> None:
    """Print a row below the names of the parts."""
    print(f'{pace.workers:>7}{pace.images_per_second:>10.0f}', end='')
    for part, milliseconds in pace.parts.items():
        print(f'{milliseconds:>{len(part) + 2}.1f}', end='')
    print()


def compare(args: argparse.Namespace, paths: list[str]) -> None:
    """Time the transforms and print a row for each."""
    cv2.setNumThreads(args.threads)
    steps = read_config(
        args.config, args.cfg_options).train_dataloader.dataset.pipeline
    replaced = []
    for step in steps:
        replaced += to_mmpretrain(step)
    ours, theirs = build_pipeline(steps), build_pipeline(replaced)
    contents = [np.fromfile(path, np.uint8) for path in paths]
    times = common.medians({
        'ours': over(paths, lambda path: ours(dict(img_path=path))),
        'mmpretrain': over(paths, lambda path: theirs(dict(img_path=path))),
        'decoding alone': over(contents, lambda content: cv2.imdecode(
            content, cv2.IMREAD_COLOR)),
    }, args, warmups=1)
    for name, seconds in times.items():
        print(f'{name:<15}{len(paths) / seconds:7.0f} images/s, '
              f'{times["mmpretrain"] / seconds:.2f} of mmpretrain')


def main() -> None:
    args = parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = image_files(args.folder, folder, args.images, args.size)
        width, height = Image.open(paths[0]).size
        print(f'{Path(args.config).stem}\n{len(paths)} image files, the first '
              f'{width}x{height}, {args.threads} threads, {args.repeats} '
              f'{"epochs" if args.workers else "repeats"}')
        if not args.workers:
            compare(args, paths)
            return
        print('workers  images/s', *PARTS, ' (ms per step)', sep='  ')
        for workers in args.workers:
            print_pace(train(
                read_config(args.config, args.cfg_options), paths, workers,
                args.repeats, args.model, args.cache))


if __name__ == '__main__':
    report_user_errors(main)
