# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Several heads on one encoder next to separate models.

Adds heads one by one, in the order of --heads. A line gives the time,
parameters and memory of all heads so far on one encoder, and their ratios to
separate models. Memory is that of the weights and of a step's tensors at
their peak, in ONNX Runtime the size of the file. Networks end before
post-processing (the best boxes, NMS); weights are random. --onnx runs them in
ONNX Runtime on the CPU; exporting takes a minute for each line and head.
"""
import itertools
import tempfile
from argparse import Namespace
from pathlib import Path

import common
import numpy as np
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope
from torch.profiler import profile

import qbheat_mm.detection  # noqa: F401
from qbheat_mm.apis import load_heads
from qbheat_mm.cli import count, report_user_errors
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


def load(runs: Runs, args: Namespace, folder: str
         ) -> tuple[common.Step, list[float]]:
    """Load heads on one encoder.

    Returns:
        tuple: A step on random images; millions of parameters, MB of weights,
        and MB of a step's tensors at their peak.
    """
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
        return step, [parameters, file.stat().st_size / 2**20, 0]
    with profile(profile_memory=True) as log:
        network(*inputs.values())
    peak = max(itertools.accumulate(
        event.self_cpu_memory_usage + event.self_device_memory_usage
        for event in sorted(log.events(), key=lambda e: e.time_range.end)))
    weights = sum(value.nbytes for value in network.state_dict().values())
    return (lambda: network(*inputs.values()),
            [parameters, weights / 2**20, peak / 2**20])


def print_table(heads: list[str], costs: dict[tuple[str, ...], list]) -> None:
    """Print a line for each head added.

    Args:
        heads (list[str]): Names in order.
        costs (dict[tuple[str, ...], list]): Milliseconds and costs of
            :func:`load` of heads on one encoder.
    """
    print(f'{"":<13}{"ms added":>8}' + ''.join(
        f'{unit:>9}{"separate":>10}{"ratio":>6}'
        for unit in ('ms', 'M params', 'MB')))
    before = 0.
    for n, head in enumerate(heads):
        together = np.array(costs[tuple(heads[:n + 1])])
        alone = np.array([costs[name, ] for name in heads[:n + 1]])
        # Separate models can run one after the other.
        separate = np.append(alone[:, :3].sum(0), alone[:, 3].max())
        columns = zip(*([*cost[:2], cost[2:].sum()]
                        for cost in (together, separate)))
        label = f'+ {head}' if n else head
        print(f'{label:<13}{together[0] - before:+8.0f}' + ''.join(
            f'{ours:9.1f} {theirs:9.1f} {ours / theirs:5.2f}'
            for ours, theirs in columns))
        before = together[0]


@torch.no_grad()
def main() -> None:
    parser = common.make_parser(__doc__)
    parser.add_argument('--encoder', default='285m',
                        choices=('285m', '1.0g', '3.7g'))
    parser.add_argument('--heads', nargs='+', default=list(HEADS),
                        choices=HEADS)
    parser.add_argument('--size', type=count, nargs=2, default=[320, 320],
                        metavar=('HEIGHT', 'WIDTH'))
    parser.add_argument('--batch-size', type=count, default=1)
    parser.add_argument('--onnx', action='store_true')
    args = common.parse(parser)
    sets = {tuple(args.heads[:n + 1]) for n in range(len(args.heads))}
    steps, costs = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        runs = write_runs(args, folder)
        for heads in sets | {(name, ) for name in args.heads}:
            steps[heads], costs[heads] = load(
                {name: runs[name] for name in heads}, args, folder)
        for heads, seconds in common.medians(steps, args, warmups=1).items():
            costs[heads].insert(0, 1e3 * seconds)
    print(common.describe(
        args, f'MF-{args.encoder.upper()}',
        'ONNX Runtime' if args.onnx else 'PyTorch',
        f'{args.batch_size} of {args.size}, random weights'))
    print_table(args.heads, costs)


if __name__ == '__main__':
    report_user_errors(main)
