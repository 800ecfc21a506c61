# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Estimate time, memory and CPU cores of a run before it starts.

Times a few training steps and the input pipeline on this machine, on a
synthetic image if the data is missing. Times on accelerators are computed,
never measured: multiply-adds over the peak rate, of which networks with
depthwise convolutions such as Mobile-Former are taken to reach 5 %, others
41 % (timm's published rates of EfficientNet-B0 and DeiT-S on an RTX 3090).
Small batches, such as MF-Dec's two images per GPU, take longer than computed.
"""
import argparse
import importlib
import re
from pathlib import Path

import torch
from joblib import cpu_count
from mmengine.device import get_device
from mmengine.logging import MMLogger

import qbheat_mm  # noqa: F401
from qbheat_mm import cli
from qbheat_mm.analysis.run_cost import ACCELERATORS, TrainingRun


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('config', nargs='+')
    parser.add_argument(
        '--gpus', type=cli.count, help='number of GPUs; defaults to the one '
        "in the config's name, such as 8xb128, or 1")
    parser.add_argument(
        '--accelerator', nargs='+', choices=ACCELERATORS, metavar='NAME',
        default=['v100', 'a100', 'h100'],
        help=f'among {", ".join(ACCELERATORS)}')
    parser.add_argument(
        '--images', type=cli.count, help='number of training images, instead '
        'of counting them; times a synthetic image')
    parser.add_argument(
        '--batch-size', type=cli.count, help='batch size of the timed steps; '
        "defaults to the config's, and at most 8 on a CPU")
    parser.add_argument(
        '--table', action='store_true',
        help='print a Markdown table with a row per config, without timing '
        'steps')
    cli.add_device(parser)
    cli.add_cfg_options(parser)
    parser.set_defaults(device=get_device())
    return parser.parse_args()


def print_report(name: str, run: TrainingRun,
                 args: argparse.Namespace) -> None:
    """Print the costs of a run."""
    size = args.batch_size or (
        min(run.batch_size, 8) if args.device == 'cpu' else run.batch_size)
    here = run.step_seconds(size) / size
    loading = run.input_seconds / cpu_count()
    # Without a GPU the input takes turns with the model.
    here = here + loading if args.device == 'cpu' else max(here, loading)
    memory = {part: n / 2**20 for part, n in run.memory().items()}
    work = sum(run.madds.values())
    print(f"""{name}
run       {run.steps:,} steps of {run.gpus} x {run.batch_size} images: \
{run.seen / run.images:,.4g} epochs of {run.images:,} images ({run.source})
work      {run.forward / 1e9:.3g} G multiply-adds per image forward, \
{work / 1e9:.3g} with the backward pass; {work * run.seen / 1e15:.3g} P in \
the run
memory    per GPU, {sum(memory.values()):,.0f} MiB: \
{', '.join(f'{part} {n:,.0f}' for part, n in memory.items())} \
(on {args.device}, without temporary buffers)
input     {1 / run.input_seconds:,.0f} images/s per core, with \
{'a synthetic JPEG file' if run.drawn else 'the images'}
here      {1 / here:.3g} images/s, {run.seen * here / 3600:,.3g} hours: \
measured on {args.device} with {torch.get_num_threads()} threads at batch \
{size}, input included

Computed for {'mixed precision' if run.amp else 'float32'}, never measured; \
without input:
{f'{run.gpus} x':<10}{'hours':>9}{'images/s':>12}   CPU cores for the input
""", end='')
    for accelerator in args.accelerator:
        hours, rate = run.computed(accelerator)
        print(f'{accelerator:<10}{hours:>9,.1f}{rate:>12,.0f}'
              f'{rate * run.input_seconds:>26,.1f}')


def print_row(name: str, run: TrainingRun, args: argparse.Namespace) -> None:
    """Print the costs of a run as a row of the table."""
    print('|', ' | '.join([
        name, f'{run.gpus} x {run.batch_size}', f'{run.steps:,}',
        f'{sum(run.madds.values()) / 1e9:.2f}',
        *(f'{run.computed(a)[0]:,.1f}' for a in args.accelerator)]), '|')


def main() -> None:
    args = parse_args()
    MMLogger.get_instance('estimate', log_level='ERROR')
    if args.table:
        head = ['config', 'batch', 'steps', 'G multiply-adds', *(
            f'hours on {name.upper()}' for name in args.accelerator)]
        print(f'| {" | ".join(head)} |\n|---|---|'
              + '--:|' * (len(head) - 2))
    for path in args.config:
        cfg, name = cli.read_config(path, args.cfg_options), Path(path).stem
        if cfg.default_scope == 'mmdet':
            importlib.import_module('qbheat_mm.detection')
        cfg.model.backbone.init_cfg = None
        found = re.search(r'_(\d+)xb\d', name)
        gpus = args.gpus or int(found[1] if found else 1)
        run = TrainingRun(cfg, args.device, gpus, args.images)
        if args.table:
            print_row(name, run, args)
        else:
            print_report(name, run, args)


if __name__ == '__main__':
    cli.report_user_errors(main)
