# Copyright (c) QB-Heat MM authors. All rights reserved.
"""How the cost grows with the batch and with the pixels of an image.

A step of pre-training, the encoder's inference and, where mmdet is, that of
MF-Dec-211 are timed in turn at several batch sizes of one image size, and at
several image sizes of one batch size. The exponent is the slope of the time
over the batch (or the pixels) on logarithmic axes: 1 is in proportion, less
than 1 says that small ones do not fill the machine.
"""
import argparse
import importlib.util
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope
from mmengine.utils.dl_utils import collect_env
from torch import Tensor, nn

import qbheat_mm.models  # noqa: F401
from qbheat_mm.cli import count, device, report_user_errors
from qbheat_mm.utils import time_in_turn

CONFIGS = Path(__file__).resolve().parents[2] / 'configs' / 'qbheat'
PRETRAINING = 'qbheat_mf-285m_8xb128-amp-coslr-100e_in1k.py'
DETECTOR = 'coco/mf-dec-211_mf-285m_frozen_8xb2-50e_coco.py'


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--batches', type=count, nargs='+',
                        default=[2, 4, 8, 16], help='at the first of --sizes')
    parser.add_argument('--sizes', type=count, nargs='+',
                        default=[256, 384, 512, 768],
                        help='at the first of --batches; multiples of 64')
    parser.add_argument('--threads', type=count, default=2)
    parser.add_argument('--repeats', type=count, default=5)
    parser.add_argument(
        '--device', type=device,
        default='cuda' if torch.cuda.is_available() else 'cpu')
    return parser.parse_args()


def build(config: str) -> nn.Module:
    """The model of a configuration, its weights random."""
    cfg = Config.fromfile(CONFIGS / config)
    cfg.model.backbone.init_cfg = None
    with DefaultScope.overwrite_default_scope(cfg.default_scope):
        return MODELS.build(cfg.model)


def pretraining() -> Callable[[Tensor], None]:
    """A step of QB-Heat: forward, backward, optimizer."""
    model = build(PRETRAINING).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)

    def step(images: Tensor) -> None:
        optimizer.zero_grad()
        model.to(images.device)(images, None, mode='loss')['loss'].backward()
        optimizer.step()

    return step


def inference(model: nn.Module) -> Callable[[Tensor], None]:
    """What a network makes of images."""
    model.eval()

    @torch.no_grad()
    def step(images: Tensor) -> None:
        model.to(images.device)(images)

    return step


def what() -> dict[str, Callable[[Tensor], None]]:
    """What is timed, called with a batch of images."""
    steps = {'pre-training step': pretraining(),
             'encoder': inference(build(PRETRAINING).backbone)}
    if importlib.util.find_spec('mmdet'):
        import qbheat_mm.detection  # noqa: F401
        steps['MF-Dec-211'] = inference(build(DETECTOR))
    return steps


def exponent(times: Mapping[int, float]) -> float:
    """The slope of the times over their keys on logarithmic axes."""
    return float(np.polyfit(np.log(list(times)),
                            np.log(list(times.values())), 1)[0])


def measure(step: Callable[[Tensor], None],
            batches: Mapping[int, Tensor], args: argparse.Namespace
            ) -> dict[int, float]:
    """Median seconds by the key of a batch."""
    times = time_in_turn(
        {str(key): lambda images=images: step(images)
         for key, images in batches.items()}, args.repeats, args.device)
    return {int(key): statistics.median(t) for key, t in times.items()}


def main() -> None:
    args = parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    size, batch = args.sizes[0], args.batches[0]
    by_batch = {n: torch.randn(n, 3, size, size, device=args.device)
                for n in args.batches}
    by_pixels = {side**2: torch.randn(batch, 3, side, side,
                                      device=args.device)
                 for side in args.sizes}
    print(f'torch {torch.__version__}, {args.device}, {args.threads} threads, '
          f'float32, median of {args.repeats}, '
          f'{collect_env().get("GPU 0", "no GPU")}')
    for name, step in what().items():
        for over, batches, labels in (
                (f'batch, {size}x{size}', by_batch, args.batches),
                (f'pixels, batch {batch}', by_pixels,
                 [f'{side}²' for side in args.sizes])):
            times = measure(step, batches, args)
            shown = '  '.join(f'{label}: {1e3 * t:.0f} ms'
                              for label, t in zip(labels, times.values()))
            print(f'{name:<18} over {over:<18} exponent '
                  f'{exponent(times):4.2f}   {shown}', flush=True)


if __name__ == '__main__':
    report_user_errors(main)
