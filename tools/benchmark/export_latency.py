# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Latency of exported detectors beside PyTorch, and beside DETR-R50.

The networks of detector_latency.py, without what follows them (the choice of
the best queries, NMS), in several ways: eager PyTorch, torch.compile and
ONNX Runtime, if it is installed. All are exported for one
image of one size. They take turns in one process, so that whatever else the
machine does hits all of them: the ratios of the medians are what to look at.
"""
import argparse
import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from common import describe, make_parser, medians, parse
from detector_latency import OURS, THEIRS, build, make_sample
from mmdet.utils import register_all_modules
from torch import Tensor, nn

from qbheat_mm.cli import count, report_user_errors
from qbheat_mm.export.detectors import detector_network
from qbheat_mm.export.network import folded
from qbheat_mm.export.programs import OPSET, largest_difference

WAYS = ('eager', 'compiled', 'onnxruntime')
BESIDE = 'DETR-R50'


class DETRNetwork(nn.Module):
    """mmdet's DETR for one image of one size, without padding."""

    def __init__(self, model: nn.Module, size: tuple[int, int]) -> None:
        super().__init__()
        self.model = model
        self.samples = [make_sample(size)]

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """(1, 3, H, W) to logits and boxes, (1, queries, ...)."""
        states = self.model.forward_transformer(
            self.model.extract_feat(images), self.samples)['hidden_states']
        logits, boxes = self.model.bbox_head(states[-1])
        return dict(logits=logits, boxes=boxes)


class WholeImages(nn.Module):
    """A network of images and their sizes, for images without padding."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """(B, 3, H, W) to the outputs of the network."""
        size = torch.tensor([images.shape[2:]]).expand(images.shape[0], -1)
        return self.network(images, size)


def parse_args() -> argparse.Namespace:
    parser = make_parser(__doc__, repeats=10)
    parser.add_argument(
        '--size', type=count, nargs=2, default=(800, 1333), metavar=('H', 'W'))
    parser.add_argument(
        '--names', nargs='+', choices=[*OURS, *THEIRS],
        default=[name for name in OURS if '285M' in name] + list(THEIRS))
    parser.add_argument(
        '--ways', nargs='+', choices=WAYS,
        help='by default all that are installed')
    parser.set_defaults(device='cpu')
    return parse(parser)


def make_network(name: str, size: tuple[int, int]) -> nn.Module:
    """A detector with random weights as a function of images alone."""
    model = folded(build(name))
    if name == 'DETR-R50':
        return DETRNetwork(model, size)
    return WholeImages(detector_network(model)).eval()


def write(network: nn.Module, image: Tensor, path: Path) -> list[str]:
    """Write ONNX for images of this very shape.

    Returns:
        list[str]: Names of the outputs.
    """
    program = torch.export.export(network, (image, ))
    names = list(network(image))
    torch.onnx.export(
        program, f=str(path), input_names=['images'], output_names=names,
        opset_version=OPSET, dynamo=True, external_data=False, verbose=False)
    return names


def in_onnxruntime(path: Path, names: list[str], image: Tensor,
                   threads: int) -> Callable[[], dict]:
    """A step of ONNX Runtime."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        str(path), options, providers=['CPUExecutionProvider'])
    inputs = dict(images=image.numpy())
    return lambda: dict(zip(names, session.run(names, inputs)))


def make_steps(name: str, ways: list[str], image: Tensor, threads: int,
               folder: Path) -> dict[str, Callable[[], dict]]:
    """A step for each way, after a look at what it computes.

    Raises:
        RuntimeError: If one computes something else.
    """
    network = make_network(name, tuple(image.shape[2:]))
    steps = dict(eager=lambda: network(image))
    if 'compiled' in ways:
        compiled = torch.compile(network)
        steps['compiled'] = lambda: compiled(image)
    if 'onnxruntime' in ways:
        path = folder / f'{name.replace(" ", "_")}.onnx'
        names = write(network, image, path)
        steps['onnxruntime'] = in_onnxruntime(path, names, image, threads)
    wanted = steps['eager']()
    for way, step in steps.items():
        found = {key: torch.as_tensor(value) for key, value in step().items()}
        difference, output = largest_difference(found, wanted)
        if not difference < 1e-2:  # of random weights, many layers deep
            raise RuntimeError(f'{output} of {name} differs by {difference} '
                               f'({way})')
    return {way: steps[way] for way in ways}


@torch.no_grad()
def main() -> None:
    args = parse_args()
    register_all_modules()
    torch.backends.mha.set_fastpath_enabled(False)  # which no exporter knows
    ways = args.ways or [way for way in WAYS if way != 'onnxruntime'
                         or importlib.util.find_spec(way)]
    size = tuple(args.size)
    image = torch.randn(1, 3, *size)
    with tempfile.TemporaryDirectory() as folder:
        steps = {
            (name, way): step for name in args.names
            for way, step in make_steps(name, ways, image, args.threads,
                                        Path(folder)).items()}
        times = medians(steps, args, warmups=2)
    print(describe(args, f'one image of {size[0]}x{size[1]}', 'float32',
                   'random weights', 'without post-processing'),
          f', ms (over {BESIDE})', sep='')
    print(f'{"":<22}' + ''.join(f'{way:>20}' for way in ways))
    for name in args.names:
        print(f'{name:<22}', end='')
        for way in ways:
            seconds, other = times[name, way], times.get((BESIDE, way))
            ratio = f' ({seconds / other:.2f})' if other else ''
            print(f'{f"{seconds * 1e3:.0f}{ratio}":>20}', end='')
        print()


if __name__ == '__main__':
    report_user_errors(main)
