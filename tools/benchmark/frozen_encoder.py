# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Step time and memory of training a detector on a frozen encoder.

Trains the same detector with random weights on a frozen and on a trained
encoder, step by step in turn. Memory is what autograd keeps of a forward pass
for the backward pass.
"""
import argparse
from pathlib import Path

import common
import torch
from mmdet.registry import MODELS
from mmdet.testing import demo_mm_inputs
from mmdet.utils import register_all_modules
from torch import Tensor, nn

import qbheat_mm.detection  # noqa: F401
from qbheat_mm.cli import count, read_config, report_user_errors
from qbheat_mm.utils.complexity import kept_bytes

CONFIG = common.CONFIGS / 'coco/mf-dec-211_mf-285m_frozen_8xb2-500e_coco.py'
FROZEN = dict(frozen={}, trained=dict(frozen_stages=-1, norm_eval=True))


def build(settings: dict, args: argparse.Namespace) -> nn.Module:
    """Build the detector in training mode, with settings of its encoder."""
    torch.manual_seed(0)
    cfg = read_config(args.config)
    cfg.model.backbone.update(init_cfg=None, **settings)
    return MODELS.build(cfg.model).train().to(args.device)


def make_batch(args: argparse.Namespace) -> dict:
    """Make random images with ten random boxes of the first class each."""
    batch = demo_mm_inputs(
        args.batch_size, image_shapes=(3, *args.size),
        num_items=[10] * args.batch_size, with_mask=True, device=args.device)
    for sample in batch['data_samples']:
        sample.gt_instances.labels.zero_()
    return batch


def loss(model: nn.Module, batch: dict) -> Tensor:
    """Preprocess a batch; return the sum of all losses."""
    inputs = model.data_preprocessor(batch, True)
    return model.parse_losses(model(**inputs, mode='loss'))[0]


def main() -> None:
    parser = common.make_parser(__doc__)
    parser.add_argument('--config', default=str(CONFIG),
                        help='config of a detector')
    parser.add_argument('--batch-size', type=count, default=2)
    common.add_size(parser, 800, 1333)
    args = common.parse(parser)
    register_all_modules()
    batch = make_batch(args)
    steps, kept = {}, {}
    for kind, settings in FROZEN.items():
        model = build(settings, args)
        optimizer = torch.optim.AdamW(
            [p for p in model.parameters() if p.requires_grad], lr=1e-6)
        steps[kind] = common.make_step(
            lambda model=model: loss(model, batch), optimizer, args.device)
        kept[kind] = kept_bytes(model, steps[kind])
    times = common.medians(steps, args, warmups=1)
    print(Path(args.config).stem)
    print(common.describe(args, f'batch {args.batch_size}',
                          f'{args.size[0]}x{args.size[1]}', 'float32'))
    for kind in FROZEN:
        print(f'{kind:<8} encoder: {times[kind]:8.3f} s a step, '
              f'{kept[kind] / 2**20:8.0f} MiB kept')
    print(f'frozen / trained: {times["frozen"] / times["trained"]:.2f} time, '
          f'{kept["frozen"] / kept["trained"]:.2f} kept')


if __name__ == '__main__':
    report_user_errors(main)
