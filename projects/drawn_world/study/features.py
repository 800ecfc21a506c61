# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Measure a frozen encoder's features: k-NN, tokens, correlation, matrices.

CONFIG is a configuration of `lin`, which names the labelled images, those to
be measured on, and both outputs of the encoder.
"""
from math import ceil

import torch
from measuring import measuring_parser, write_metrics
from mmengine.config import Config
from mmengine.runner import Runner
from torch import Tensor
from torch.utils.data import DataLoader

from projects.drawn_world.study.describe import (
    describe_maps,
    describe_matrices,
)
from qbheat_mm.apis import load_encoder
from qbheat_mm.cli import read_config, report_user_errors
from qbheat_mm.engine.checkpoint import read, weights
from qbheat_mm.evaluation import knn_accuracy
from qbheat_mm.evaluation.encoder import Encoder

#: Images whose maps are looked at; 2 GiB of MF-285M's at 224 x 224.
MAPS = 4096


@torch.no_grad()
def extract(encoder: Encoder,
            loader: DataLoader) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What an encoder says of the N images of a data loader.

    Returns:
        tuple: Pooled maps (N, C) and labels (N, ) of all images; maps
        (n, C, H, W) and tokens (n, T, d) of :data:`MAPS` images or fewer,
        spread evenly, since maps of many fill the memory.
    """
    pooled, labels, maps, tokens = [], [], [], []
    every = ceil(len(loader.dataset) / MAPS)
    for batch in loader:
        images = encoder.normalize(torch.stack(tuple(batch['inputs'])).flip(1))
        found, global_tokens = encoder(images)
        kept = slice(-len(labels) % every, None, every)
        pooled.append(found.mean(dim=(2, 3)))
        maps.append(found[kept].clone())
        tokens.append(global_tokens[kept].clone())
        labels += [int(sample.gt_label) for sample in batch['data_samples']]
    return (torch.cat(pooled), torch.tensor(labels), torch.cat(maps),
            torch.cat(tokens))


def settings_of_loaders(cfg: Config) -> tuple[dict, dict]:
    """Data loaders of labelled images, none of them augmented.

    Returns:
        tuple: Of the images of training, which are the neighbours, and of
        those that are asked for.
    """
    known = cfg.val_dataloader.copy()
    known['dataset'] = dict(cfg.train_dataloader.dataset,
                            pipeline=known['dataset']['pipeline'])
    return known, cfg.val_dataloader


def main() -> None:
    """Measure."""
    args = measuring_parser(__doc__).parse_args()
    cfg = read_config(args.config, args.cfg_options)
    encoder = load_encoder(args.checkpoint, cfg)
    known, asked = map(Runner.build_dataloader, settings_of_loaders(cfg))
    bank = extract(encoder, known)[:2]
    *queries, maps, tokens = extract(encoder, asked)
    metrics = {'k-NN': knn_accuracy(*bank, *queries)}
    metrics.update(describe_maps(maps, tokens))
    metrics.update(describe_matrices(
        weights(read(args.checkpoint))))
    write_metrics(args.out, metrics)


if __name__ == '__main__':
    report_user_errors(main)
