# Copyright (c) QB-Heat MM authors. All rights reserved.
"""How time grows with the batch and with the pixels of an image.

Times a step of pre-training, the encoder, and (with mmdet) MF-Dec-211. The
exponent is the slope of time over batch (or pixels) on logarithmic axes: 1 is
proportional, less than 1 means that small inputs do not fill the machine.
"""
import importlib.util
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import torch
from common import (
    CONFIGS,
    PRETRAINING,
    describe,
    make_parser,
    medians,
    parse,
    training,
)
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope
from torch import Tensor, nn

import qbheat_mm.models  # noqa: F401
from qbheat_mm.cli import count, report_user_errors

DETECTOR = 'coco/mf-dec-211_mf-285m_frozen_8xb2-50e_coco.py'


def build(config: str) -> nn.Module:
    """The model of a config, with random weights."""
    cfg = Config.fromfile(CONFIGS / config)
    cfg.model.backbone.init_cfg = None
    with DefaultScope.overwrite_default_scope(cfg.default_scope):
        return MODELS.build(cfg.model)


def pretraining() -> Callable[[Tensor], None]:
    """A step of QB-Heat: forward, backward, optimizer."""
    model = build(PRETRAINING).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    return lambda images: training(
        lambda: model.to(images.device)(images, None, mode='loss')['loss'],
        optimizer)()


def inference(model: nn.Module) -> Callable[[Tensor], None]:
    """A forward pass in eval mode."""
    return torch.no_grad()(
        lambda images: model.eval().to(images.device)(images))


def exponent(times: Mapping[int, float]) -> float:
    """The slope of the times over their keys on logarithmic axes."""
    return float(np.polyfit(np.log(list(times)),
                            np.log(list(times.values())), 1)[0])


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__, threads=2)
    parser.add_argument('--batches', type=count, nargs='+',
                        default=[2, 4, 8, 16], help='at the first of --sizes')
    parser.add_argument('--sizes', type=count, nargs='+',
                        default=[256, 384, 512, 768],
                        help='at the first of --batches; multiples of 64')
    args = parse(parser)
    size, batch = args.sizes[0], args.batches[0]
    steps = {'pre-training step': pretraining(),
             'encoder': inference(build(PRETRAINING).backbone)}
    if importlib.util.find_spec('mmdet'):
        import qbheat_mm.detection  # noqa: F401
        steps['MF-Dec-211'] = inference(build(DETECTOR))
    print(describe(args, 'float32'))
    for name, step in steps.items():
        for over, shapes in (
                (f'batch, {size}x{size}',
                 {n: (n, 3, size, size) for n in args.batches}),
                (f'pixels, batch {batch}',
                 {side**2: (batch, 3, side, side) for side in args.sizes})):
            times = medians({key: partial(step, torch.randn(
                shape, device=args.device)) for key, shape in shapes.items()},
                args)
            shown = '  '.join(f'{key}: {1e3 * t:.0f} ms'
                              for key, t in times.items())
            print(f'{name:<18} over {over:<18} exponent '
                  f'{exponent(times):4.2f}   {shown}', flush=True)


if __name__ == '__main__':
    report_user_errors(main)
