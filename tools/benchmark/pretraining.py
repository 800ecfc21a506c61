# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Time steps of pre-training beside MAE and the machine's matrix product.

Forward, backward and optimizer of a QB-Heat config and of mmpretrain's
MAE with ViT-S/16 are timed in turn on random images. The share of the limit
is the rate of a step's floating-point operations (three times those of matrix
products and convolutions forward) over that of the best matrix product.
Memory is what a step allocates at most on a GPU, and what autograd keeps of it
on the CPU.
"""
import argparse
from collections.abc import Callable
from pathlib import Path

import torch
from common import PRETRAINING, describe, make_parser, medians, parse
from mmpretrain.registry import MODELS
from torch import Tensor, nn

import qbheat_mm.models  # noqa: F401
from qbheat_mm.cli import count, read_config, report_user_errors
from qbheat_mm.utils.complexity import flop_counter, kept_bytes

# (M, K, N) of the matrix products of transformer blocks of width 512.
PRODUCTS = ((4096, 512, 2048), (4096, 2048, 512), (2048, 2048, 2048),
            (4096, 4096, 4096))
PRECISIONS = dict(fp32=None, bf16=torch.bfloat16, fp16=torch.float16)


def mae(size: int) -> dict:
    """ViT-S/16 with MAE's decoder, as mmpretrain's recipe of ViT-B."""
    patches = (size // 16)**2
    return dict(
        type='MAE',
        backbone=dict(type='MAEViT', arch='deit-small', patch_size=16,
                      mask_ratio=0.75, img_size=size),
        neck=dict(type='MAEPretrainDecoder', patch_size=16, in_chans=3,
                  embed_dim=384, decoder_embed_dim=512, decoder_depth=8,
                  decoder_num_heads=16, mlp_ratio=4., num_patches=patches),
        head=dict(type='MAEPretrainHead', norm_pix=True, patch_size=16,
                  loss=dict(type='PixelReconstructionLoss', criterion='L2')))


def make_step(model: nn.Module, images: Tensor,
              args: argparse.Namespace) -> Callable[[], None]:
    """One step of training, as mmengine takes it."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    dtype = PRECISIONS[args.precision]
    kind = torch.device(args.device).type
    scaler = torch.amp.GradScaler(kind, enabled=args.precision == 'fp16')
    run = torch.compile(model) if args.compile else model

    def step() -> None:
        with torch.autocast(kind, dtype, enabled=dtype is not None):
            loss = run(images, None, mode='loss')['loss']
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


def operations(model: nn.Module, images: Tensor) -> int:
    """Floating-point operations of a step: thrice those of the forward pass.

    A multiplication and an addition are two. Torch counts the backward pass of
    depthwise convolutions as if all channels met.
    """
    with flop_counter() as counter:
        model(images, None, mode='loss')
    return 3 * counter.get_total_flops()


def step_bytes(model: nn.Module, step: Callable[[], None],
               args: argparse.Namespace) -> int:
    """Memory of a step, weights and optimizer apart."""
    if torch.device(args.device).type != 'cuda':
        return kept_bytes(model, step)
    start = torch.cuda.memory_allocated(args.device)
    torch.cuda.reset_peak_memory_stats(args.device)
    step()
    return torch.cuda.max_memory_allocated(args.device) - start


def best_product(args: argparse.Namespace) -> tuple[str, float]:
    """The fastest matrix product, and its operations per second."""
    dtype = PRECISIONS[args.precision] or torch.float32
    if torch.device(args.device).type != 'cuda':
        dtype = torch.float32  # float16 is far slower on many CPUs
    steps = {}
    for m, k, n in PRODUCTS:
        left, right = (torch.randn(shape, device=args.device, dtype=dtype)
                       for shape in ((m, k), (k, n)))
        steps[m, k, n] = lambda a=left, b=right: a @ b
    rates = {(m, k, n): 2 * m * k * n / seconds for (m, k, n), seconds in
             medians(steps, args, warmups=1).items()}
    best = max(rates, key=rates.get)
    return f'{"x".join(map(str, best))}, {dtype}', rates[best]


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__, threads=2)
    parser.add_argument('--config', default=str(PRETRAINING),
                        help='of QB-Heat')
    parser.add_argument('--batch-size', type=count, default=16)
    parser.add_argument('--size', type=count, default=256)
    parser.add_argument('--precision', choices=PRECISIONS, default='fp32')
    parser.add_argument('--compile', action='store_true')
    args = parse(parser)
    images = torch.randn(args.batch_size, 3, args.size, args.size,
                         device=args.device)
    models = {
        Path(args.config).stem.split('_8x')[0]: read_config(args.config).model,
        'MAE ViT-S/16': mae(args.size)}
    models = {name: MODELS.build(cfg).train().to(args.device)
              for name, cfg in models.items()}
    work = {name: operations(model, images) / args.batch_size
            for name, model in models.items()}
    steps = {name: make_step(model, images, args)
             for name, model in models.items()}
    rates = {name: args.batch_size / seconds
             for name, seconds in medians(steps, args).items()}
    memory = {name: step_bytes(model, steps[name], args)
              for name, model in models.items()}
    shape, limit = best_product(args)
    print(describe(args, f'batch {args.batch_size}',
                   f'{args.size}x{args.size}', args.precision +
                   (' compiled' if args.compile else '')))
    print(f'limit: {limit / 1e9:.0f} GFLOP/s by the matrix product {shape}')
    first = next(iter(rates.values()))
    for name, rate in rates.items():
        print(f'{name:<18}{rate:9.2f} images/s, {work[name] / 1e9:6.1f} GFLOP '
              f'an image, {work[name] * rate / limit:5.0%} of the limit, '
              f'{memory[name] / 2**20:.0f} MiB, ours is {first / rate:.2f} '
              'times as fast')


if __name__ == '__main__':
    report_user_errors(main)
