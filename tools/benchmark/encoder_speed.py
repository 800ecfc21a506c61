"""Time an encoder beside torchvision's MobileNetV3-Large, in turn.

Both networks are classifiers with 1000 outputs. One step of each is timed
alternately in one process, so that whatever else the machine does hits both;
the ratio of the medians is what to look at.
"""
import argparse
import statistics
from collections.abc import Callable

import torch
import torch.nn.functional as F
from mmengine.utils.dl_utils import collect_env
from mmpretrain.registry import MODELS
from torch import Tensor, nn
from torchvision.models import mobilenet_v3_large

import qbheat_mm  # noqa: F401
from qbheat_mm.cli import count, device, report_user_errors
from qbheat_mm.utils import time_in_turn


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--arch', default='mf-285m')
    parser.add_argument('--batch-size', type=count, default=16)
    parser.add_argument('--size', type=count, default=224)
    parser.add_argument('--threads', type=count, default=2)
    parser.add_argument('--repeats', type=count, default=20)
    parser.add_argument(
        '--device', type=device,
        default='cuda' if torch.cuda.is_available() else 'cpu')
    parser.add_argument('--compile', action='store_true')
    return parser.parse_args()


def classifier(arch: str) -> nn.Module:
    """The encoder with the pooling and the linear layer of `lin`."""
    backbone = MODELS.build(
        dict(type='MobileFormer', arch=arch, out_indices=(-2, -1)))
    channels = backbone.arch['conv'] + backbone.arch['tokens'][1]
    return nn.Sequential(backbone, MODELS.build(dict(type='PoolWithToken')),
                         First(), nn.Linear(channels, 1000))


class First(nn.Module):
    """Unpack the tuple that necks return."""

    def forward(self, outs: tuple) -> Tensor:
        return outs[0]


def inference(net: nn.Module, images: Tensor) -> Callable[[], None]:
    net.eval()

    def step() -> None:
        with torch.no_grad():
            net(images)

    return step


def training(net: nn.Module, images: Tensor) -> Callable[[], None]:
    net.train()
    labels = torch.randint(1000, (len(images), ), device=images.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(net(images), labels).backward()
        optimizer.step()

    return step


def main() -> None:
    args = parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    images = torch.randn(
        args.batch_size, 3, args.size, args.size, device=args.device)
    nets = {args.arch: classifier(args.arch), 'mobilenet_v3_large':
            mobilenet_v3_large()}
    nets = {name: net.to(args.device) for name, net in nets.items()}
    if args.compile:
        nets = {name: torch.compile(net) for name, net in nets.items()}

    env = collect_env()
    print(f'torch {torch.__version__}, {args.device}, {args.threads} threads, '
          f'batch {args.batch_size}, {args.size}x{args.size}, float32, '
          f'{env.get("GPU 0", "no GPU")}')
    for kind in (inference, training):
        times = time_in_turn(
            {name: kind(net, images)
             for name, net in nets.items()}, args.repeats, args.device)
        ours, theirs = (
            statistics.median(t) * 1e3 for t in times.values())
        print(f'{kind.__name__:<10} {args.arch} {ours:8.1f} ms   '
              f'mobilenet_v3_large {theirs:8.1f} ms   '
              f'ratio {ours / theirs:.2f}')


if __name__ == '__main__':
    report_user_errors(main)
