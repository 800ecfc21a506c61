# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Time alternatives in turn in one process.

Other load on the machine then affects all of them alike: trust the ratios of
the medians more than the medians.
"""
import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from mmengine.utils.dl_utils import collect_env
from torch import Tensor, nn

from qbheat_mm.cli import count

CONFIGS = Path(__file__).resolve().parents[2] / 'configs/qbheat'
PRETRAINING = CONFIGS / 'qbheat_mf-285m_8xb128-amp-coslr-100e_in1k.py'


def make_parser(doc: str, threads: int = 1, repeats: int = 5
                ) -> argparse.ArgumentParser:
    """A parser with the options of every benchmark."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--threads', type=count, default=threads)
    parser.add_argument('--repeats', type=count, default=repeats)
    parser.add_argument(
        '--device', default='cuda' if torch.cuda.is_available() else 'cpu')
    return parser


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line, set the threads, seed torch."""
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    return args


def training(loss: Callable[[], Tensor], optimizer: torch.optim.Optimizer
             ) -> Callable[[], None]:
    """A step of training: forward, backward, optimizer."""

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


def runtimes() -> list[str]:
    """The installed ones among those that run ONNX files."""
    return [name for name in RUNTIMES if find_spec(name)]


@torch.no_grad()
def in_runtime(runtime: str, network: nn.Module, images: Tensor,
               names: list[str], threads: int) -> Callable[[], dict]:
    """Export for images of this very shape; return a step of a runtime."""
    from qbheat_mm.export.onnx_graph import to_onnx
    exported = to_onnx(torch.export.export(network, (images, ), strict=False),
                       input_names=['images'], output_names=names)
    return RUNTIMES[runtime](exported.model_proto.SerializeToString(),
                             images.numpy(), names, threads)


def _onnxruntime(model: bytes, images: np.ndarray, names: list[str],
                 threads: int) -> Callable[[], dict]:
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model, options, providers=['CPUExecutionProvider'])
    return lambda: dict(zip(names, session.run(names, dict(images=images))))


def _openvino(model: bytes, images: np.ndarray, names: list[str],
              threads: int) -> Callable[[], dict]:
    import openvino
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model), 'CPU', dict(
        INFERENCE_NUM_THREADS=threads, PERFORMANCE_HINT='LATENCY',
        INFERENCE_PRECISION_HINT='f32'))
    return lambda: dict(zip(names, compiled(dict(images=images)).values()))


RUNTIMES = dict(onnxruntime=_onnxruntime, openvino=_openvino)


def medians(steps: Mapping[str, Callable[[], object]],
            args: argparse.Namespace, warmups: int = 3) -> dict[str, float]:
    """Median seconds of each step over ``--repeats`` rounds after warm-up."""
    times = {name: [] for name in steps}
    for repeat in range(args.repeats + warmups):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if args.device.startswith('cuda'):
                torch.cuda.synchronize()
            if repeat >= warmups:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) for name, each in times.items()}


def describe(args: argparse.Namespace, *more: str) -> str:
    """The conditions of a measurement, in one line."""
    return ', '.join([
        f'torch {torch.__version__}', args.device, f'{args.threads} threads',
        *more, f'median of {args.repeats}',
        collect_env().get('GPU 0', 'no GPU')])
