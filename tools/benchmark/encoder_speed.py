# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Time an encoder beside torchvision's MobileNetV3-Large, in turn.

Both are classifiers with 1000 classes; look at the ratio of the medians. The
first rows are of one image and one thread, in eager PyTorch and in ONNX
Runtime and OpenVINO if installed, where both networks have BN folded.
"""
import argparse
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from common import (
    describe,
    in_runtime,
    make_parser,
    medians,
    parse,
    runtimes,
    training,
)
from mmpretrain.registry import MODELS
from torch import Tensor, nn
from torchvision.models import mobilenet_v3_large

import qbheat_mm  # noqa: F401
from qbheat_mm.cli import count, report_user_errors
from qbheat_mm.export.network import folded


class Classifier(nn.Module):
    """The encoder with the pooling and the linear layer of `lin`."""

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


def predict(net: nn.Module, images: Tensor) -> Callable[[], Tensor]:
    """A forward pass in eval mode."""
    return torch.no_grad()(lambda: net.eval()(images))


def train(net: nn.Module, images: Tensor) -> Callable[[], None]:
    """Forward, backward and SGD."""
    labels = torch.randint(1000, (len(images), ), device=images.device)
    return training(
        lambda: F.cross_entropy(net.train()(images), labels),
        torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9))


def compare(kind: str, nets: dict[str, nn.Module], make_step: Callable,
            images: Tensor, args: argparse.Namespace) -> None:
    """Time a step of both networks in turn, and print their ratio."""
    times = medians({name: make_step(net, images)
                     for name, net in nets.items()}, args)
    ours, theirs = (1e3 * seconds for seconds in times.values())
    print(f'{kind:<28} {args.arch} {ours:8.1f} ms   '
          f'mobilenet_v3_large {theirs:8.1f} ms   ratio {ours / theirs:.2f}')


def run(runtime: str, net: nn.Module, images: Tensor) -> Callable[[], dict]:
    """A step of a runtime."""
    return in_runtime(runtime, folded(net), images, ['logits'], threads=1)


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__, threads=2, repeats=20)
    parser.add_argument('--arch', default='mf-285m')
    parser.add_argument('--batch-size', type=count, default=16)
    parser.add_argument('--size', type=count, default=224)
    parser.add_argument('--compile', action='store_true',
                        help='also compiled, at the given batch size')
    parser.add_argument('--no-onnx', action='store_true',
                        help='only in PyTorch, since exporting is slow')
    args = parse(parser)
    nets = {args.arch: Classifier(args.arch),
            'mobilenet_v3_large': mobilenet_v3_large()}
    nets = {name: net.to(args.device) for name, net in nets.items()}
    images = torch.randn(
        args.batch_size, 3, args.size, args.size, device=args.device)
    print(describe(args, f'batch {args.batch_size}',
                   f'{args.size}x{args.size}', 'float32'))
    torch.set_num_threads(1)
    compare('one image, one thread', nets, predict, images[:1], args)
    if args.device == 'cpu' and not args.no_onnx:
        for runtime in runtimes():
            compare(f'the same in {runtime}', nets, partial(run, runtime),
                    images[:1], args)
    torch.set_num_threads(args.threads)
    compare('inference', nets, predict, images, args)
    if args.compile:
        compiled = {name: torch.compile(net) for name, net in nets.items()}
        compare('inference, compiled', compiled, predict, images, args)
    compare('training', nets, train, images, args)


if __name__ == '__main__':
    report_user_errors(main)
