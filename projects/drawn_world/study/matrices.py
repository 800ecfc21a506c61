# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Measure the learned matrices A and B, and what they are worth.

CONFIG is a configuration of pre-training; the images are the first of its
training data set, which should be one that was not trained on.
"""
import argparse

import torch
from measuring import measuring_parser, write_metrics
from mmengine.runner import Runner

from projects.drawn_world.study.describe import describe_linear_models
from qbheat_mm.cli import count, read_config, report_user_errors
from qbheat_mm.cli.trained_model import (
    build_pretraining,
    load_pretraining,
)
from qbheat_mm.models.layers.normalize import Normalization, Normalize


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = measuring_parser(__doc__)
    parser.add_argument('--images', type=count, default=256, metavar='N',
                        help='at most so many, a batch; defaults to 256')
    return parser.parse_args()


def main() -> None:
    """Measure."""
    args = parse_args()
    cfg = read_config(args.config, args.cfg_options)
    model = build_pretraining(cfg, args.config)
    load_pretraining(model, args.checkpoint)
    loader = dict(cfg.train_dataloader, batch_size=args.images,
                  drop_last=False, sampler=dict(type='DefaultSampler',
                                                shuffle=False))
    torch.manual_seed(0)  # of what the pipeline draws
    batch = next(iter(Runner.build_dataloader(loader)))
    normalize = Normalize(Normalization.of(model.data_preprocessor))
    images = normalize(torch.stack(tuple(batch['inputs'])).flip(1))
    write_metrics(args.out, describe_linear_models(model, images))


if __name__ == '__main__':
    report_user_errors(main)
