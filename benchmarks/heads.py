# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Several heads on one encoder next to separate models.

Adds heads one by one, in the order of --heads. A line gives the time,
parameters and memory of all heads so far on one encoder, and their ratios to
separate models. Memory is that of the weights and of a step's tensors at
their peak, in ONNX Runtime the size of the file. Networks end before
post-processing (the best boxes, NMS); weights are random. --onnx runs them in
ONNX Runtime on the CPU; exporting takes a minute for each line and head.
"""
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import NamedTuple

import common
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope
from torch.profiler import profile

import qbheat_mm.detection  # noqa: F401
from qbheat_mm.apis import load_heads
from qbheat_mm.cli.arguments import count
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.export import export_network
from qbheat_mm.export.make_network import make_network
from qbheat_mm.export.network import folded
from qbheat_mm.utils.complexity import count_parameters

HEADS = {
    'lin': 'benchmarks/mf-{}_8xb512-linear-coslr-90e_in1k.py',
    'tran-1': 'benchmarks/mf-{}_8xb512-tran1-coslr-200e_in1k.py',
    'mf-dec-211': 'coco/mf-dec-211_mf-{}_frozen_8xb2-500e_coco.py',
    'retinanet': 'coco/retinanet_mf-{}_fpn_frozen_8xb2-1x_coco.py'}
Runs = dict[str, tuple[Config, str]]


def write_runs(args: Namespace, folder: str) -> Runs:
    """Write a checkpoint for each head, all with the same encoder."""
    runs, shared = {}, None
    for name in args.heads:
        cfg = Config.fromfile(
            common.CONFIGS / HEADS[name].format(args.encoder))
        cfg.model.backbone.init_cfg = None
        with DefaultScope.overwrite_default_scope(cfg.default_scope):
            model = MODELS.build(cfg.model)
        shared = shared or model.backbone.state_dict()
        model.backbone.load_state_dict(shared)
        runs[name] = cfg, f'{folder}/{name}.pth'
        torch.save(dict(state_dict=model.state_dict()), runs[name][1])
    return runs


class Costs(NamedTuple):
    """Millions of parameters; MB of weights and of a step's tensors."""
    parameters: float
    weights: float
    peak: float


def load(runs: Runs, args: Namespace, folder: str
         ) -> tuple[common.Step, Costs]:
    """Load heads on one encoder; make a step on random images."""
    heads = load_heads(runs)
    network = folded(make_network(heads)).to(args.device)
    values = (torch.randn(args.batch_size, 3, *args.size, device=args.device),
              torch.tensor([args.size] * args.batch_size, device=args.device))
    inputs = dict(zip(network.inputs, values))
    parameters = count_parameters(network) / 1e6
    if args.onnx:
        file = Path(folder, f'{"-".join(runs)}.onnx')
        export_network(heads, str(file))
        arrays = {name: value.numpy() for name, value in inputs.items()}
        step = common.onnxruntime_step(str(file), arrays, args.threads)
        return step, Costs(parameters, file.stat().st_size / 2**20, 0)
    with profile(profile_memory=True) as log:
        network(*inputs.values())
    in_use = peak = 0
    for event in sorted(log.events(), key=lambda event: event.time_range.end):
        in_use += event.self_cpu_memory_usage + event.self_device_memory_usage
        peak = max(peak, in_use)
    weights = sum(value.nbytes for value in network.state_dict().values())
    return (lambda: network(*inputs.values()),
            Costs(parameters, weights / 2**20, peak / 2**20))


class Row(NamedTuple):
    """Costs of all heads up to one: milliseconds, M parameters, MB."""
    head: str
    added: float  # milliseconds
    shared: tuple[float, float, float]  # on one encoder
    separate: tuple[float, float, float]


@torch.no_grad()
def measure(args: Namespace) -> list[Row]:
    """Measure ``args.heads``, added one by one to one encoder, and alone."""
    together = [tuple(args.heads[:n + 1]) for n in range(len(args.heads))]
    alone = [(name, ) for name in args.heads]
    steps, costs = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        runs = write_runs(args, folder)
        for heads in {*together, *alone}:
            steps[heads], costs[heads] = load(
                {name: runs[name] for name in heads}, args, folder)
        times = common.medians(steps, args, warmups=1)
    rows, before = [], 0.
    for n, heads in enumerate(together):
        milliseconds = 1e3 * times[heads]
        parts = [costs[part] for part in alone[:n + 1]]
        # Separate models can run one after the other.
        memory = (sum(part.weights for part in parts)
                  + max(part.peak for part in parts))
        rows.append(Row(
            heads[-1], milliseconds - before,
            (milliseconds, costs[heads].parameters,
             costs[heads].weights + costs[heads].peak),
            (1e3 * sum(times[part] for part in alone[:n + 1]),
             sum(part.parameters for part in parts), memory)))
        before = milliseconds
    return rows


def print_table(rows: list[Row]) -> None:
    """Print a line for each head added."""
    print(f'{"":<13}{"ms added":>8}', end='')
    for unit in ('ms', 'M params', 'MB'):
        print(f'{unit:>9}{"separate":>10}{"ratio":>6}', end='')
    print()
    for row in rows:
        label = row.head if row is rows[0] else f'+ {row.head}'
        print(f'{label:<13}{row.added:+8.0f}', end='')
        for ours, theirs in zip(row.shared, row.separate):
            print(f'{ours:9.1f} {theirs:9.1f} {ours / theirs:5.2f}', end='')
        print()


def parse_args(argv: list[str] | None = None) -> Namespace:
    parser = common.make_parser(__doc__)
    parser.add_argument('--encoder', default='285m',
                        choices=('285m', '1.0g', '3.7g'))
    parser.add_argument('--heads', nargs='+', default=list(HEADS),
                        choices=HEADS)
    parser.add_argument('--size', type=count, nargs=2, default=[320, 320],
                        metavar=('HEIGHT', 'WIDTH'))
    parser.add_argument('--batch-size', type=count, default=1)
    parser.add_argument('--onnx', action='store_true')
    return common.parse(parser, argv)


def main() -> None:
    args = parse_args()
    rows = measure(args)
    print(common.describe(
        args, f'MF-{args.encoder.upper()}',
        'ONNX Runtime' if args.onnx else 'PyTorch',
        f'{args.batch_size} of {args.size}, random weights'))
    print_table(rows)


if __name__ == '__main__':
    report_user_errors(main)
