# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Measure a GPU in a few minutes; ends in the table of docs/performance.md.

Pre-training steps in float16 and bfloat16, with weights in the channels_last
layout and compiled, next to mmpretrain's MAE; whole runs with and without
cached images; detectors, and two heads on one encoder.
Operators are those that a step dispatches, a measure of its launches.
"""
import argparse
import gc
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial

import common
import detectors
import heads
import input as loading
import torch
from counters import operator_counter
from mmpretrain.registry import MODELS
from pretraining import mae, step_bytes
from torch import nn

import qbheat_mm.models  # noqa: F401
from qbheat_mm.cli.arguments import count
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.config.reading import read_config

CONFIG = 'qbheat_mf-{}_8xb128-amp-coslr-100e_in1k.py'
#: Models whose steps are also timed with more than the first batch size.
LARGE_BATCHES = 'MAE ViT-S/16', 'MF-285M', 'MF-3.7G'


def models(pixels: int) -> dict[str, Callable[[], nn.Module]]:
    """Return what builds each model, by name."""
    def vit_b() -> nn.Module:
        cfg = mae(pixels)
        cfg.backbone.arch, cfg.neck.embed_dim = 'base', 768
        return MODELS.build(cfg)

    def ours(size: str) -> nn.Module:
        return MODELS.build(
            read_config(common.CONFIGS / CONFIG.format(size)).model)

    return {'MAE ViT-S/16': lambda: MODELS.build(mae(pixels)),
            'MAE ViT-B/16': vit_b,
            'MF-285M': partial(ours, '285m'), 'MF-1.0G': partial(ours, '1.0g'),
            'MF-3.7G': partial(ours, '3.7g')}


def time_steps(args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Time training steps; yield rows of the table.

    All ways with the first batch size; with larger ones, whether the GPU or
    the launches bind.
    """
    first, *others = args.batch_size
    builders = models(args.size)
    for name in args.models:
        for way in args.ways if name.startswith('MF') else ['bf16']:
            yield (f'{name}, {way}, batch {first}',
                   time_step(builders[name], way, first, args))
    for size in others:
        for name in args.models:
            if name in LARGE_BATCHES:
                yield (f'{name}, bf16, batch {size}',
                       time_step(builders[name], 'bf16', size, args))


def time_compiled(args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Time compiled steps, also as CUDA graphs; yield rows of the table."""
    for name in args.compiled:
        for way in ('bf16', 'bf16, compiled', 'bf16, compiled, graphs'):
            yield (f'{name}, {way}, batch {args.compiled_batch_size}',
                   time_step(models(args.size)[name], way,
                             args.compiled_batch_size, args))


def time_step(build: Callable[[], nn.Module], way: str, batch_size: int,
              args: argparse.Namespace) -> str:
    """Time a training step; return its cells."""
    gc.collect()  # the model before
    if args.device != 'cpu':
        torch.cuda.empty_cache()
    torch.backends.cudnn.benchmark = 'untuned' not in way
    try:
        return _time_step(build(), way, batch_size, args)
    except torch.OutOfMemoryError:
        return 'out of memory'


def _time_step(model: nn.Module, way: str, batch_size: int,
               args: argparse.Namespace) -> str:
    images = torch.randn(batch_size, 3, args.size, args.size,
                         device=args.device)
    model.train().to(args.device)
    if 'channels_last' in way:
        model.to(memory_format=torch.channels_last)
    step = common.make_step(
        lambda: model(images, [None] * len(images), mode='loss')['loss'],
        torch.optim.AdamW(model.parameters(), 1e-6, fused=True),
        args.device, way[:4])
    start = time.perf_counter()
    if 'graphs' in way:
        model.compile(mode='reduce-overhead')
    elif 'compiled' in way:
        model.compile()
    step()
    step()
    if args.device != 'cpu':
        torch.cuda.synchronize()
    first = time.perf_counter() - start
    seconds = common.medians({way: step}, args)[way]
    cells = [f'{batch_size / seconds:,.0f} images/s']
    if 'compiled' in way:
        cells.append(f'the first two steps {first:.0f} s')
    else:
        with operator_counter() as operators:
            step()
        cells.append(f'{operators.total():,} operators')
    cells.append(f'{step_bytes(model, step, args.device) / 2**30:.1f} GiB')
    return ', '.join(cells)


def time_runs(args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Train the own-images config on files; yield rows of the table."""
    config = common.CONFIGS / (
        'qbheat_mf-285m_1xb256-amp-coslr-400e_own-images.py')
    ways = {'from files': {}, 'cache': dict(cache=True)}
    with tempfile.TemporaryDirectory() as drawn:
        paths = loading.image_files(args.folder, drawn, args.images)
        for way, settings in ways.items():
            for workers in args.workers:
                cfg = read_config(config)
                cfg.train_dataloader.batch_size = args.batch_size[0]
                pace = loading.train(cfg, paths, workers, 5, with_model=True,
                                     **settings)
                yield (f'own-images run, {way}, {pace.workers} workers',
                       f'{pace.images_per_second:.0f} images/s')


def time_detectors(args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Time detectors and two heads on one encoder; yield rows."""
    measured = detectors.measure(
        detectors.DEFAULT, ['predict'], args.detector_size, args)
    baseline = detectors.times_of(detectors.BASELINE, measured)
    for detector in measured:
        yield f'{detector.name}, one image', (
            f'{detector.parameters / 1e6:.1f}M, {detector.madds / 1e9:.1f}G, '
            f'{detector.format_time("predict", baseline)}')
    for size in (1, 16):
        arguments = ['--heads', 'lin', 'retinanet', '--device', args.device,
                     '--batch-size', str(size), '--repeats', str(args.repeats)]
        row = heads.measure(heads.parse_args(arguments))[-1]
        ours, theirs = row.shared[0], row.separate[0]
        yield (f'lin and RetinaNet, {size} of 320x320',
               f'{ours:.1f} ms, {ours / theirs:.2f} of two models')


def parse_args() -> argparse.Namespace:
    parser = common.make_parser(__doc__, threads=2, repeats=8)
    parser.add_argument('--batch-size', type=count, nargs='+',
                        default=[256, 512, 1024])
    names = [*models(256)]
    parser.add_argument('--models', nargs='+', choices=names, default=names,
                        metavar='MODEL', help='models of the steps')
    parser.add_argument(
        '--ways', nargs='+', metavar='WAY',
        default=['bf16', 'fp16', 'bf16, channels_last',
                 'bf16, cuDNN untuned'],
        help='of a step of Mobile-Former with the first batch size')
    parser.add_argument(
        '--compiled', nargs='*', default=['MF-285M', 'MF-3.7G'],
        metavar='MODEL', help='models to compile')
    parser.add_argument('--compiled-batch-size', type=count, default=128,
                        help="one GPU's share of the paper's 1,024")
    parser.add_argument('--size', type=count, default=256)
    parser.add_argument('--detector-size', type=count, nargs=2,
                        default=[800, 1333], metavar=('HEIGHT', 'WIDTH'))
    parser.add_argument(
        '--folder', help='photographs of a whole run; defaults to drawn files')
    parser.add_argument('--images', type=count, default=2048,
                        help='image files of a whole run')
    cores = os.cpu_count() or 2
    parser.add_argument('--workers', type=count, nargs='+',
                        default=[max(cores // 2 - 1, 1), max(cores - 1, 1)],
                        help='workers of a whole run')
    parser.add_argument('--parts', nargs='+', choices=PARTS, default=[*PARTS])
    return common.parse(parser)


PARTS = dict(steps=time_steps, runs=time_runs, detectors=time_detectors,
             compiled=time_compiled)


def main() -> None:
    args = parse_args()
    rows = []
    for part in args.parts:
        torch.backends.cudnn.benchmark = False  # whole runs switch it on
        try:
            for row in PARTS[part](args):
                print(*row, sep=': ', flush=True)
                rows.append(row)
        except Exception as error:  # the other parts are worth having
            rows.append((part, f'failed: {error!r}'))
    print('\n' + common.describe(args) + '\n')
    print('| what | measured |\n|---|---|')
    for name, cells in rows:
        print(f'| {name} | {cells} |')


if __name__ == '__main__':
    report_user_errors(main)
