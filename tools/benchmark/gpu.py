# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Measure a GPU in a few minutes; ends in the table of docs/performance.md.

Pre-training steps in float16 and bfloat16, with weights in the channels_last
layout and compiled, next to mmpretrain's MAE; whole runs with and without
cached images and repeated crops; detectors, and two heads on one encoder.
Operators are those that a step dispatches, a measure of its launches.
"""
import argparse
import contextlib
import gc
import io
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import common
import torch
from mmpretrain.registry import MODELS
from pretraining import mae, step_bytes
from torch import nn

import qbheat_mm.models  # noqa: F401
from qbheat_mm.cli import count, read_config, report_user_errors
from qbheat_mm.utils.complexity import operator_counter

FOLDER = Path(__file__).parent
CONFIG = 'qbheat_mf-{}_8xb128-amp-coslr-100e_in1k.py'
PEER = 'MAE ViT-S/16, bf16'


def models() -> dict[str, Callable[[], nn.Module]]:
    """Return what builds each model, by name."""
    def vit_b() -> nn.Module:
        cfg = mae(256)
        cfg.backbone.arch, cfg.neck.embed_dim = 'base', 768
        return MODELS.build(cfg)

    def ours(size: str) -> nn.Module:
        return MODELS.build(
            read_config(common.CONFIGS / CONFIG.format(size)).model)

    return {'MAE ViT-S/16': lambda: MODELS.build(mae(256)),
            'MAE ViT-B/16': vit_b,
            **{f'MF-{size.upper()}': partial(ours, size)
               for size in ('285m', '1.0g', '3.7g')}}


def time_steps(args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Time training steps; yield rows of the table."""
    images = torch.randn(args.batch_size, 3, args.size, args.size,
                         device=args.device)
    peer = None
    for name, build in models().items():
        model = build().train().to(args.device)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-6, fused=True)
        ways = ['bf16', 'fp16']
        if name in ('MF-285M', 'MF-3.7G'):
            ways += ['bf16, channels_last', 'bf16, compiled']
        for way in ways if name.startswith('MF') else ['bf16']:
            layout = (torch.channels_last if 'channels_last' in way
                      else torch.contiguous_format)
            model.to(memory_format=layout)
            step = common.make_step(
                lambda model=model: model(images, [None] * len(images),
                                          mode='loss')['loss'],
                optimizer, args.device, way[:4])
            start = time.perf_counter()
            if 'compiled' in way:
                model.compile()
            step()
            step()
            if args.device != 'cpu':
                torch.cuda.synchronize()
            first = time.perf_counter() - start
            seconds = common.medians({way: step}, args)[way]
            rate = args.batch_size / seconds
            peer = peer or rate
            cells = [f'{rate:,.0f} images/s', f'{rate / peer:.2f} x MAE ViT-S']
            if 'compiled' in way:
                cells.append(f'compiled in {first:.0f} s')
            else:
                with operator_counter() as found:
                    step()
                cells.append(f'{found.total():,} operators')
                cells.append(
                    f'{step_bytes(model, step, args.device) / 2**30:.1f} GiB')
            yield f'{name}, {way}', ', '.join(cells)
        del model, optimizer, step
        gc.collect()
        if args.device != 'cpu':
            torch.cuda.empty_cache()


def run(tool: str, *arguments: object) -> list[str]:
    """Run another benchmark; return the lines that it prints."""
    done = subprocess.run(
        [sys.executable, FOLDER / tool, *map(str, arguments)],
        capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return done.stdout.splitlines()
