# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What will a run cost? Time, memory and CPU cores, before it starts.

A few training steps and the input pipeline are measured on this machine, with
drawn images if the data is not there. Times on accelerators are computed from
multiply-adds, peak rates and memory bandwidths (see
qbheat_mm/analysis/run_cost.py), never measured.
"""
import argparse
import importlib
import os
import re
import tempfile
from pathlib import Path

import torch
from mmengine.device import get_device
from mmengine.logging import MMLogger

import qbheat_mm  # noqa: F401
from qbheat_mm.analysis.run_cost import (
    ACCELERATORS,
    TrainingStep,
    count_steps,
)
from qbheat_mm.analysis.sample_images import (
    drawn_sample,
    find_data,
    load_samples,
)
from qbheat_mm.cli import (
    add_cfg_options,
    add_device,
    count,
    read_config,
    report_user_errors,
)

SAMPLES = 16  # loaded
SMALL = 8  # a batch that the CPU takes steps of


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('config', nargs='+')
    parser.add_argument(
        '--gpus', type=count,
        help="by default those of the config's name, such as 8xb128, or 1")
    parser.add_argument(
        '--accelerator', nargs='+', choices=ACCELERATORS, metavar='NAME',
        default=['v100', 'a100', 'h100'],
        help=f'of {", ".join(ACCELERATORS)}')
    parser.add_argument(
        '--images', type=count, help='number of training images, instead of '
        'counting them; the images are drawn')
    parser.add_argument(
        '--batch-size', type=count, help='of the measured steps; by default '
        "the config's on a GPU, and at most 8 without")
    parser.add_argument(
        '--table', action='store_true',
        help='one row of a Markdown table for each config, without measuring '
        'steps')
    add_device(parser)
    add_cfg_options(parser)
    parser.set_defaults(device=get_device())
    return parser.parse_args()


class Run:
    """A run, without measured steps."""

    def __init__(self, path: str, args: argparse.Namespace) -> None:
        self.cfg = read_config(path, args.cfg_options)
        if self.cfg.default_scope == 'mmdet':
            importlib.import_module('qbheat_mm.detection')
        self.cfg.model.backbone.init_cfg = None
        self.name = Path(path).stem
        gpus = re.search(r'_(\d+)xb\d', self.name)
        self.gpus = args.gpus or int(gpus[1] if gpus else 1)
        self.batch = self.cfg.train_dataloader.batch_size
        self.images, self.source, load = find_data(self.cfg, args.images)
        self.drawn = load is None
        self.epoch, self.steps = count_steps(
            self.cfg, self.images, self.gpus)
        self.seen = self.steps * self.batch * self.gpus
        with tempfile.TemporaryDirectory() as folder:
            self.samples, self.input_seconds = load_samples(
                load or drawn_sample(self.cfg, folder), SAMPLES,
                SAMPLES if self.drawn else self.images)
        self.step = TrainingStep(self.cfg, args.device)
        few = self.samples[:SMALL]
        self.work = self.step.work(
            self.step.batches(few, min(self.batch, SMALL)), len(few))

    def on(self, accelerator: str) -> tuple[float, float, float]:
        """Computed hours, images a second and CPU cores for the input."""
        rate = self.gpus / self.work.seconds(
            accelerator, self.step.amp, self.batch)
        return self.seen / rate / 3600, rate, rate * self.input_seconds


def measure(run: Run, args: argparse.Namespace) -> tuple[int, float]:
    """Batch size and seconds of a step, with as many images as fit."""
    size = args.batch_size or (
        min(run.batch, SMALL) if args.device == 'cpu' else run.batch)
    samples = run.samples * (size // len(run.samples) + 1)
    while True:
        try:
            return size, run.step.seconds(
                run.step.batches(samples[:size], size)[0])
        except torch.OutOfMemoryError:
            if size < 2:
                raise
            size //= 2


def report(run: Run, args: argparse.Namespace) -> str:
    """What is known of a run, in a dozen lines."""
    size, seconds = measure(run, args)
    cores = os.cpu_count()
    here = seconds / size
    # Without a GPU the input takes turns with the model.
    here = (here + run.input_seconds / cores if args.device == 'cpu' else
            max(here, run.input_seconds / cores))
    memory = dict(run.step.memory(),
                  activations=run.step.activations(run.samples))
    work, mib = run.work, 2**20
    forward, frozen, total = (n / 1e9 for n in (
        work.forward, work.frozen, work.mobile + work.dense))
    epochs = f'{run.steps // run.epoch} epochs of ' if run.epoch else ''
    precision = 'mixed precision' if run.step.amp else 'float32'
    lines = [
        run.name,
        f'run       {run.steps:,} steps of {run.gpus} x {run.batch} images: '
        f'{epochs}{run.images:,} images ({run.source})',
        f'work      {forward:.3g} G multiply-adds an image forward, '
        f'{frozen:.3g} of them frozen; {total:.3g} with the backward pass; '
        f'{total * run.seen / 1e6:.3g} P in the run',
        f'memory    of each GPU, {sum(memory.values()) / mib:,.0f} MiB: '
        + ', '.join(f'{name} {value / mib:,.0f}'
                    for name, value in memory.items())
        + f' ({precision}, without temporary buffers)',
        f'input     {1 / run.input_seconds:,.0f} images/s of a core, with '
        + ('drawn JPEG files' if run.drawn else 'the images'),
        f'here      {1 / here:.3g} images/s, {run.seen * here / 3600:,.3g} '
        f'hours: measured on {args.device} with {torch.get_num_threads()} '
        f'threads at batch {size}, input included',
        '',
        f'Computed for {precision}, never measured; without input:',
        f'{f"{run.gpus} x":<10}{"hours":>9}{"images/s":>10}{"of peak":>9}'
        f'{"CPU cores for the input":>26}']
    for name in args.accelerator:
        hours, rate, needed = run.on(name)
        share = work.utilization(name, run.step.amp, run.batch)
        lines.append(f'{name:<10}{hours:>9,.1f}{rate:>10,.0f}{share:>9.1%}'
                     f'{needed:>26,.1f}')
    return '\n'.join(lines)


def row(run: Run, args: argparse.Namespace) -> str:
    """A row of the table."""
    hours = [f'{run.on(name)[0]:,.1f}' for name in args.accelerator]
    step = (run.work.mobile + run.work.dense) / 1e9
    return '| ' + ' | '.join([
        run.name, f'{run.gpus} x {run.batch}', f'{run.steps:,}',
        f'{step:.2f}', *hours]) + ' |'


def main() -> None:
    args = parse_args()
    MMLogger.get_instance('estimate', log_level='ERROR')
    if args.table:
        head = ['config', 'batch', 'steps', 'G multiply-adds', *(
            f'hours on {name.upper()}' for name in args.accelerator)]
        print('| ' + ' | '.join(head) + ' |\n|---|---|'
              + '--:|' * (len(head) - 2))
    for path in args.config:
        run = Run(path, args)
        print((row if args.table else report)(run, args), flush=True)


if __name__ == '__main__':
    report_user_errors(main)
