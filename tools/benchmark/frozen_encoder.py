# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Step time and memory of training a detector on a frozen encoder.

The same detector with random weights is trained on a frozen and on a trained
encoder: steps are timed in turn. Memory is what autograd keeps of a forward
pass for the backward pass.
"""
import argparse
from collections.abc import Callable
from pathlib import Path

import torch
from common import CONFIGS, describe, make_parser, medians, parse, training
from mmdet.registry import MODELS
from mmdet.testing import demo_mm_inputs
from mmdet.utils import register_all_modules
from torch import Tensor, nn

import qbheat_mm.detection  # noqa: F401
from qbheat_mm.cli import count, read_config, report_user_errors
from qbheat_mm.utils.complexity import kept_bytes

CONFIG = CONFIGS / 'coco/mf-dec-211_mf-285m_frozen_8xb2-500e_coco.py'
FROZEN = dict(frozen={}, trained=dict(frozen_stages=-1, norm_eval=True))


def build(kind: str, args: argparse.Namespace) -> nn.Module:
    """The detector in training mode; ``kind`` is a key of FROZEN."""
    torch.manual_seed(0)
    cfg = read_config(args.config)
    cfg.model.backbone.update(init_cfg=None, **FROZEN[kind])
    return MODELS.build(cfg.model).train().to(args.device)


def make_batch(args: argparse.Namespace) -> dict:
    """Random images with ten random boxes of the first class each."""
    batch = demo_mm_inputs(
        args.batch_size, image_shapes=(3, *args.size),
        num_items=[10] * args.batch_size, with_mask=True, device=args.device)
    for sample in batch['data_samples']:
        sample.gt_instances.labels.zero_()
    return batch


def make_step(model: nn.Module, batch: dict) -> Callable[[], None]:
    """One step of training, as mmengine takes it."""

    def loss() -> Tensor:
        inputs = model.data_preprocessor(batch, True)
        return model.parse_losses(model(**inputs, mode='loss'))[0]

    return training(loss, torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr=1e-6))


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument('--config', default=str(CONFIG),
                        help='of a detector whose backbone can be frozen')
    parser.add_argument('--batch-size', type=count, default=2)
    parser.add_argument('--size', type=count, nargs=2, default=(800, 1333),
                        metavar=('H', 'W'))
    args = parse(parser)
    register_all_modules()
    batch = make_batch(args)
    models = {kind: build(kind, args) for kind in FROZEN}
    steps = {kind: make_step(model, batch) for kind, model in models.items()}
    kept = {kind: kept_bytes(models[kind], steps[kind]) for kind in FROZEN}
    times = medians(steps, args, warmups=1)
    print(Path(args.config).stem)
    print(describe(args, f'batch {args.batch_size}',
                   f'{args.size[0]}x{args.size[1]}', 'float32'))
    for kind in FROZEN:
        print(f'{kind:<8} encoder: {times[kind]:8.3f} s a step, '
              f'{kept[kind] / 2**20:8.0f} MiB kept')
    print(f'frozen / trained: {times["frozen"] / times["trained"]:.2f} time, '
          f'{kept["frozen"] / kept["trained"]:.2f} kept')


if __name__ == '__main__':
    report_user_errors(main)
