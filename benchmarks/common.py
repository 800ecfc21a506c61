# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Time alternatives in turn in one process.

Other load on the machine affects all alike: trust the ratios of the medians
more than the medians.
"""
import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from mmengine.utils.dl_utils import collect_env
from torch import Tensor, nn

from qbheat_mm.cli.arguments import count

CONFIGS = Path(__file__).resolve().parents[1] / 'configs/qbheat'
PRETRAINING = CONFIGS / 'qbheat_mf-285m_8xb128-amp-coslr-100e_in1k.py'
PRECISIONS = dict(fp32=None, bf16=torch.bfloat16, fp16=torch.float16)
Step = Callable[[], object]


def make_parser(doc: str, threads: int = 1, repeats: int = 5
                ) -> argparse.ArgumentParser:
    """Create a parser with the options of all benchmarks."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--threads', type=count, default=threads)
    parser.add_argument('--repeats', type=count, default=repeats)
    parser.add_argument(
        '--device', default='cuda' if torch.cuda.is_available() else 'cpu')
    return parser


def parse(parser: argparse.ArgumentParser,
          argv: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line, set the threads, seed torch."""
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    return args


def make_step(loss: Callable[[], Tensor], optimizer: torch.optim.Optimizer,
              device: str, precision: str = 'fp32') -> Step:
    """Make a training step: forward, backward, optimizer."""
    dtype, kind = PRECISIONS[precision], torch.device(device).type
    scaler = torch.amp.GradScaler(kind, enabled=precision == 'fp16')

    def step() -> None:
        with torch.autocast(kind, dtype, enabled=dtype is not None):
            value = loss()
        optimizer.zero_grad()
        scaler.scale(value).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


@torch.no_grad()
def in_runtime(runtime: str, network: nn.Module, images: Tensor,
               threads: int) -> Step:
    """Export a network for images of this shape; make a step."""
    from qbheat_mm.export.onnx_graph import to_onnx
    program = torch.export.export(network, (images, ), strict=False)
    model = to_onnx(program, input_names=['images']).model_proto
    return RUNTIMES[runtime](model.SerializeToString(),
                             dict(images=images.numpy()), threads)


def onnxruntime_step(model: bytes | str, inputs: dict[str, np.ndarray],
                     threads: int) -> Step:
    """Run a model or a file in ONNX Runtime; a step returns the outputs."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model, options, providers=['CPUExecutionProvider'])
    return lambda: session.run(None, inputs)


def _openvino_step(model: bytes, inputs: dict[str, np.ndarray],
                   threads: int) -> Step:
    import openvino
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model), 'CPU', dict(
        INFERENCE_NUM_THREADS=threads, PERFORMANCE_HINT='LATENCY',
        INFERENCE_PRECISION_HINT='f32'))
    return lambda: list(compiled(inputs).values())


RUNTIMES = dict(onnxruntime=onnxruntime_step, openvino=_openvino_step)


def medians(steps: Mapping[str, Step], args: argparse.Namespace,
            warmups: int = 3) -> dict[str, float]:
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
    return {name: statistics.median(of_name)
            for name, of_name in times.items()}


def describe(args: argparse.Namespace, *more: str) -> str:
    """Describe the conditions of a measurement in one line."""
    return ', '.join([
        f'torch {torch.__version__}', args.device, f'{args.threads} threads',
        *more, f'median of {args.repeats}',
        collect_env().get('GPU 0', 'no GPU')])
