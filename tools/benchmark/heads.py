# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Several heads on one encoder beside separate models.

Heads join one after the other, in the order of --heads. A line gives the time,
parameters and memory (weights, and the peak of a step) of all heads so far on
one encoder, and their ratios to separate models. Networks end before
post-processing (the best boxes, NMS), weights are random. ONNX Runtime is for
the CPU; exporting takes a minute for each line and each head.
"""
import ctypes
import importlib.util
import itertools
import tempfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import torch
from common import CONFIGS, describe, make_parser, medians, parse
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope

import qbheat_mm.detection  # noqa: F401
from qbheat_mm.apis import load_heads
from qbheat_mm.cli import count, report_user_errors
from qbheat_mm.export import export_network
from qbheat_mm.export.network import folded, make_network
from qbheat_mm.utils.complexity import count_parameters

HEADS = {
    'lin': 'benchmarks/mf-{}_8xb512-linear-coslr-90e_in1k.py',
    'tran-1': 'benchmarks/mf-{}_8xb512-tran1-coslr-200e_in1k.py',
    'mf-dec-211': 'coco/mf-dec-211_mf-{}_frozen_8xb2-500e_coco.py',
    'retinanet': 'coco/retinanet_mf-{}_fpn_frozen_8xb2-1x_coco.py'}
WAYS = ('torch', 'onnxruntime')
Step = Callable[[], object]
Runs = dict[str, tuple[Config, str]]


def write_runs(encoder: str, names: list[str], folder: Path) -> Runs:
    """Config and checkpoint of each head, on one encoder."""
    runs, shared = {}, None
    for name in names:
        cfg = Config.fromfile(CONFIGS / HEADS[name].format(encoder))
        cfg.model.backbone.init_cfg = None
        with DefaultScope.overwrite_default_scope(cfg.default_scope):
            model = MODELS.build(cfg.model)
        shared = shared or model.backbone.state_dict()
        model.backbone.load_state_dict(shared)
        runs[name] = cfg, str(folder / f'{encoder}-{name}.pth')
        torch.save(dict(state_dict=model.state_dict()), runs[name][1])
    return runs


class Program:
    """One network in PyTorch or ONNX Runtime, for any size.

    Args:
        runs (Runs): Whose heads it contains.
        path (str): Where to export it; ``''`` for PyTorch.
        args (Namespace): ``threads`` and ``device``.
    """

    def __init__(self, runs: Runs, path: str, args: Namespace) -> None:
        heads = load_heads(runs)
        self.network = folded(make_network(heads)).to(args.device)
        self.path, self.args = path, args
        if path:
            export_network(heads, path)

    def step(self, batch_size: int, size: tuple[int, int],
             arena: bool = True) -> Step:
        """A step on random images; ``arena`` is ONNX Runtime's cache."""
        inputs = dict(zip(self.network.inputs, (
            torch.randn(batch_size, 3, *size, device=self.args.device),
            torch.tensor([size] * batch_size, device=self.args.device))))
        if not self.path:
            return lambda: self.network(*inputs.values())
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.args.threads
        options.enable_cpu_mem_arena = arena
        session = onnxruntime.InferenceSession(
            self.path, options, providers=['CPUExecutionProvider'])
        arrays = {name: value.numpy() for name, value in inputs.items()}
        return lambda: session.run(None, arrays)

    def memory(self, batch_size: int, size: tuple[int, int]
               ) -> tuple[float, float]:
        """MB of the weights, and what a step adds at its peak."""
        weights = sum(tensor.nbytes for tensor in
                      self.network.state_dict().values()) / 2**20
        step = self.step(batch_size, size, arena=False)
        step()
        if self.args.device.startswith('cuda'):
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            step()
            after = torch.cuda.max_memory_allocated()
            return weights, (after - before) / 2**20
        # Linux: return freed memory, and restart the peak, VmHWM.
        ctypes.CDLL(None).malloc_trim(0)
        Path('/proc/self/clear_refs').write_text('5')
        before = _kilobytes('VmRSS')
        step()
        return weights, (_kilobytes('VmHWM') - before) / 2**10


def _kilobytes(name: str) -> int:
    lines = Path('/proc/self/status').read_text().splitlines()
    return next(int(line.split()[1]) for line in lines
                if line.startswith(name))


def report(programs: dict[tuple[str, ...], Program], batch_size: int,
           size: tuple[int, int], args: Namespace) -> None:
    """Time all networks in turn; print a line for each set of heads."""
    times = medians({heads: program.step(batch_size, size)
                     for heads, program in programs.items()}, args, warmups=1)
    parameters, weights, peaks = {}, {}, {}
    for heads, program in programs.items():
        parameters[heads] = count_parameters(program.network) / 1e6
        weights[heads], peaks[heads] = program.memory(batch_size, size)
    before = 0.
    for number in range(1, len(args.heads) + 1):
        heads = tuple(args.heads[:number])
        alone = [(name, ) for name in heads]
        columns = (
            (times[heads] * 1e3, sum(times[name] for name in alone) * 1e3),
            (parameters[heads], sum(parameters[name] for name in alone)),
            (weights[heads] + peaks[heads],
             sum(weights[name] for name in alone)
             + max(peaks[name] for name in alone)))
        print(f'{"+ " * (number > 1) + heads[-1]:<13}'
              f'{columns[0][0] - before:+8.0f}' + ''.join(
                  f'{ours:9.1f} {theirs:9.1f} {ours / theirs:5.2f}'
                  for ours, theirs in columns))
        before = columns[0][0]


@torch.no_grad()
def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument('--encoders', nargs='+', default=['285m'],
                        choices=('285m', '1.0g', '3.7g'))
    parser.add_argument('--heads', nargs='+', default=list(HEADS),
                        choices=HEADS)
    parser.add_argument('--sizes', nargs='+', default=['320x320', '800x1333'],
                        metavar='HxW')
    parser.add_argument('--batch-sizes', type=count, nargs='+',
                        default=[1, 8])
    parser.add_argument('--ways', nargs='+', choices=WAYS, default=[
        way for way in WAYS if importlib.util.find_spec(way)])
    args = parse(parser)
    print(describe(args, 'float32', 'random weights'))
    names = args.heads
    sets = dict.fromkeys([(name, ) for name in names] + [
        tuple(names[:number]) for number in range(1, len(names) + 1)])
    for encoder, way in itertools.product(args.encoders, args.ways):
        with tempfile.TemporaryDirectory() as folder:
            runs = write_runs(encoder, names, Path(folder))
            programs = {heads: Program(
                {name: runs[name] for name in heads},
                f'{folder}/{"-".join(heads)}.onnx'
                if way == 'onnxruntime' else '', args) for heads in sets}
            for size, number in itertools.product(
                    args.sizes, args.batch_sizes):
                print(f'MF-{encoder.upper()}, {way}, {number} of {size}\n'
                      f'{"":<13}{"ms added":>8}' + ''.join(
                          f'{unit:>9}{"separate":>10}{"ratio":>6}'
                          for unit in ('ms', 'M params', 'MB')))
                report(programs, number, tuple(map(int, size.split('x'))),
                       args)


if __name__ == '__main__':
    report_user_errors(main)
