# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Time pre-training steps next to MAE and the machine's matrix product.

Forward, backward and optimizer of a QB-Heat config and of mmpretrain's MAE
with ViT-S/16 are timed in turn on random images. The share of the limit is the
rate of a step's floating-point operations (three times those of matrix
products and convolutions forward) over that of the fastest matrix product.
Memory is the peak of a step's allocations on a GPU, and what autograd keeps
for the backward pass on the CPU.
"""
import argparse
import math
from functools import partial
from pathlib import Path

import common
import torch
from counters import kept_bytes
from mmengine.hub import get_config
from mmpretrain.registry import MODELS
from torch import Tensor, nn

import qbheat_mm.models  # noqa: F401
from qbheat_mm.cli.arguments import count
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.config.reading import read_config
from qbheat_mm.utils.complexity import flop_counter

# (M, K, N) of the matrix products of transformer blocks of width 512.
PRODUCTS = ((4096, 512, 2048), (4096, 2048, 512), (2048, 2048, 2048),
            (4096, 4096, 4096))


def mae(size: int) -> dict:
    """Read mmpretrain's MAE with ViT-S/16 instead of ViT-B/16."""
    model = get_config('mmpretrain::mae/mae_vit-base-p16_8xb512-amp-coslr-300e'
                       '_in1k.py').model
    model.backbone.update(arch='deit-small', img_size=size)
    model.neck.update(embed_dim=384, num_patches=(size // 16)**2)
    return model


def operations(model: nn.Module, images: Tensor) -> int:
    """Count the floating-point operations of a step: thrice the forward pass.

    A multiply-add is two. Torch counts the backward pass of depthwise
    convolutions as if they were dense.
    """
    with flop_counter() as counter:
        model(images, None, mode='loss')
    return 3 * counter.get_total_flops()


def step_bytes(model: nn.Module, step: common.Step, device: str) -> int:
    """Measure a step's memory without weights and optimizer."""
    if torch.device(device).type != 'cuda':
        return kept_bytes(model, step)
    start = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    step()
    return torch.cuda.max_memory_allocated(device) - start


def best_product(args: argparse.Namespace) -> tuple[str, float]:
    """Find the fastest matrix product; also return its operations/s."""
    dtype = common.PRECISIONS[args.precision] or torch.float32
    if torch.device(args.device).type != 'cuda':
        dtype = torch.float32  # float16 is far slower on many CPUs
    steps = {}
    for m, k, n in PRODUCTS:
        left, right = (torch.randn(shape, device=args.device, dtype=dtype)
                       for shape in ((m, k), (k, n)))
        steps[m, k, n] = partial(torch.matmul, left, right)
    times = common.medians(steps, args, warmups=1)
    rates = {shape: 2 * math.prod(shape) / seconds
             for shape, seconds in times.items()}
    best = max(rates, key=rates.get)
    return f'{"x".join(map(str, best))}, {dtype}', rates[best]


def main() -> None:
    parser = common.make_parser(__doc__, threads=2)
    parser.add_argument('--config', default=str(common.PRETRAINING),
                        help='config of QB-Heat')
    parser.add_argument('--batch-size', type=count, default=16)
    parser.add_argument('--size', type=count, default=256)
    parser.add_argument('--precision', choices=common.PRECISIONS,
                        default='fp32')
    parser.add_argument('--compile', action='store_true')
    args = common.parse(parser)
    images = torch.randn(args.batch_size, 3, args.size, args.size,
                         device=args.device)
    cfgs = {
        Path(args.config).stem.split('_8x')[0]: read_config(args.config).model,
        'MAE ViT-S/16': mae(args.size)}
    models, work, steps = {}, {}, {}
    for name, cfg in cfgs.items():
        model = models[name] = MODELS.build(cfg).train().to(args.device)
        work[name] = operations(model, images) / args.batch_size
        if args.compile:
            model.compile()
        steps[name] = common.make_step(
            lambda model=model: model(images, None, mode='loss')['loss'],
            torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True),
            args.device, args.precision)
    rates = {name: args.batch_size / seconds
             for name, seconds in common.medians(steps, args).items()}
    memory = {name: step_bytes(models[name], step, args.device)
              for name, step in steps.items()}
    shape, limit = best_product(args)
    compiled = ' compiled' if args.compile else ''
    print(common.describe(args, f'batch {args.batch_size}',
                          f'{args.size}x{args.size}',
                          f'{args.precision}{compiled}'))
    print(f'limit: {limit / 1e9:.0f} GFLOP/s by the matrix product {shape}')
    first = next(iter(rates.values()))
    for name, rate in rates.items():
        print(f'{name:<18}{rate:9.2f} images/s, {work[name] / 1e9:6.1f} GFLOP '
              f'an image, {work[name] * rate / limit:5.0%} of the limit, '
              f'{memory[name] / 2**20:.0f} MiB, ours is {first / rate:.2f} '
              'times as fast')


if __name__ == '__main__':
    report_user_errors(main)
