# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Time an encoder next to torchvision's MobileNetV3-Large.

Both are classifiers with 1000 classes; compare the ratio of the medians. The
first rows are of one image and one thread, in eager PyTorch and in ONNX
Runtime and OpenVINO if installed, with BN folded in both networks.
"""
import argparse
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import common
import torch
import torch.nn.functional as F
from mmpretrain.registry import MODELS
from torch import Tensor, nn
from torchvision.models import mobilenet_v3_large

import qbheat_mm  # noqa: F401
from qbheat_mm.cli.arguments import count
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.export.network import folded


class Classifier(nn.Module):
    """An encoder with the pooling and the linear layer of `lin`."""

    def __init__(self, arch: str) -> None:
        super().__init__()
        self.backbone = MODELS.build(
            dict(type='MobileFormer', arch=arch, out_indices=(-2, -1)))
        self.pool = MODELS.build(dict(type='PoolWithToken'))
        arch = self.backbone.arch
        self.fc = nn.Linear(arch['conv'] + arch['tokens'][1], 1000)

    def forward(self, images: Tensor) -> Tensor:
        """Map (B, 3, H, W) to (B, 1000)."""
        return self.fc(self.pool(self.backbone(images))[0])


def predict(net: nn.Module, images: Tensor) -> common.Step:
    """Make a step of inference."""
    return torch.no_grad()(lambda: net.eval()(images))


def train(net: nn.Module, images: Tensor) -> common.Step:
    """Make a step of training with SGD."""
    labels = torch.randint(1000, (len(images), ), device=images.device)
    return common.make_step(
        lambda: F.cross_entropy(net.train()(images), labels),
        torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9),
        images.device)


def compare(kind: str, nets: dict[str, nn.Module], step: Callable,
            images: Tensor, args: argparse.Namespace) -> None:
    """Time a step of both networks in turn; print their ratio."""
    times = common.medians({name: step(net, images)
                            for name, net in nets.items()}, args)
    ours, theirs = (1e3 * seconds for seconds in times.values())
    print(f'{kind:<28} {args.arch} {ours:8.1f} ms   '
          f'mobilenet_v3_large {theirs:8.1f} ms   ratio {ours / theirs:.2f}')


def main() -> None:
    parser = common.make_parser(__doc__, threads=2, repeats=20)
    parser.add_argument('--arch', default='mf-285m')
    parser.add_argument('--batch-size', type=count, default=16)
    parser.add_argument('--size', type=count, default=224)
    parser.add_argument('--compile', action='store_true',
                        help='also time inference with torch.compile')
    parser.add_argument('--no-onnx', action='store_true',
                        help='skip ONNX runtimes, since exporting is slow')
    args = common.parse(parser)
    nets = {args.arch: Classifier(args.arch),
            'mobilenet_v3_large': mobilenet_v3_large()}
    nets = {name: net.to(args.device) for name, net in nets.items()}
    images = torch.randn(
        args.batch_size, 3, args.size, args.size, device=args.device)
    print(common.describe(args, f'batch {args.batch_size}',
                          f'{args.size}x{args.size}', 'float32'))
    torch.set_num_threads(1)
    compare('one image, one thread', nets, predict, images[:1], args)
    if args.device == 'cpu' and not args.no_onnx:
        small = {name: folded(net) for name, net in nets.items()}
        for runtime in filter(find_spec, common.RUNTIMES):
            compare(f'the same in {runtime}', small, partial(
                common.in_runtime, runtime, threads=1), images[:1], args)
    torch.set_num_threads(args.threads)
    compare('inference', nets, predict, images, args)
    if args.compile:
        compiled = {name: torch.compile(net) for name, net in nets.items()}
        compare('inference, compiled', compiled, predict, images, args)
    compare('training', nets, train, images, args)


if __name__ == '__main__':
    report_user_errors(main)
