# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Estimate time, memory and CPU cores of a run before it starts.

Times a few training steps and the input pipeline on this machine, on a
synthetic image if the data is missing. Times on accelerators are computed: a
step takes as long as the slowest of launching its operators, arithmetic and
memory traffic. Measured steps took that within a factor of 1.3 (MF-285M to
3.7G and MAE on an H200; published rates on V100, A100 and RTX 3090); runs on
several GPUs and detectors have not been measured.
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
from qbheat_mm.analysis.accelerators import (
    ACCELERATORS,
    LAUNCH,
    SLOW_HOST,
    SPREAD,
)
from qbheat_mm.analysis.run_cost import TrainingRun


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
        default=['v100', 'a100', 'h200'],
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
    work = run.work
    print(f"""{name}
run       {run.steps:,} steps of {run.gpus} x {run.batch_size} images: \
{run.seen / run.images:,.4g} epochs of {run.images:,} images ({run.source})
work      {run.forward / 1e9:.3g} G multiply-adds per image forward, \
{run.madds / 1e9:.3g} with the backward pass; \
{run.madds * run.seen / 1e15:,.3g} P in the run
step      {work.madds / 1e12:.3g} T multiply-adds; {work.operators:,} \
operators, which a GPU's host launches in {work.operators * LAUNCH * 1e3:.3g} \
ms; {work.moved / 1e9:.3g} GB of memory traffic
memory    per GPU, {sum(memory.values()):,.0f} MiB: \
{', '.join(f'{part} {n:,.0f}' for part, n in memory.items())} \
(on {args.device}, without temporary buffers)
input     {1 / run.input_seconds:,.0f} images/s per core, with \
{'a synthetic JPEG file' if run.drawn else 'the images'}
here      {1 / here:.3g} images/s, {run.seen * here / 3600:,.3g} hours: \
measured on {args.device} with {torch.get_num_threads()} threads at batch \
{size}, input included

Computed for {'mixed precision' if run.amp else 'float32'}, from \
1/{SLOW_HOST} (a slow host) to {SPREAD} of the rate, without input:
{f'{run.gpus} x':<10}{'hours':>17}{'images/s':>18}  {'bound by':<11}CPU cores \
for the input
""", end='')
    for accelerator in args.accelerator:
        hours, rate, bound = run.computed(accelerator)
        print(f'{accelerator:<10}{spread(hours, SPREAD, SLOW_HOST):>17}'
              f'{spread(rate):>18}  {bound:<11}'
              f'{spread(rate * run.input_seconds)}')


def spread(value: float, lower: float = SLOW_HOST,
           higher: float = SPREAD) -> str:
    """The range of a computed value."""
    return ' to '.join(f'{end:,.0f}' if end >= 10 else f'{end:.2g}'
                       for end in (value / lower, value * higher))


def print_row(name: str, run: TrainingRun, args: argparse.Namespace) -> None:
    """Print the costs of a run as a row of the table."""
    cells = [spread(run.computed(a)[0], SPREAD, SLOW_HOST)
             + f', {run.computed(a)[2]}' for a in args.accelerator]
    print('|', ' | '.join([
        name, f'{run.gpus} x {run.batch_size}', f'{run.steps:,}',
        f'{run.madds / 1e9:.2f}', f'{run.work.operators:,}', *cells]), '|')


def main() -> None:
    args = parse_args()
    MMLogger.get_instance('estimate', log_level='ERROR')
    if args.table:
        head = ['config', 'batch', 'steps', 'G multiply-adds', 'operators', *(
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
