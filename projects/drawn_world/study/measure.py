# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Measure the features of an encoder, without training anything.

The config is one of `lin`: it names the labelled images that are the
neighbors, and those to judge the encoder on.
"""
import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import torch
from mmengine.registry import init_default_scope
from mmengine.runner import Runner
from torch import Tensor

from qbheat_mm.analysis.embedding_quality import describe_embeddings
from qbheat_mm.apis import load_encoder
from qbheat_mm.cli import add_cfg_options, read_config, report_user_errors
from qbheat_mm.evaluation import knn_accuracy
from qbheat_mm.evaluation.encoder import Encoder

#: Names in the results and in ``describe_embeddings``.
NAMES = {'token similarity': 'token_similarity',
         'token similarity between images': 'token_similarity_across_images',
         'effective rank': 'effective_rank'}


def batches(encoder: Encoder, loader: dict) -> Iterator[tuple[Tensor, list]]:
    """Normalized images (B, 3, H, W) and their labels."""
    for batch in Runner.build_dataloader(loader):
        images = torch.stack(tuple(batch['inputs'])).flip(1)  # to RGB
        labels = [int(sample.gt_label) for sample in batch['data_samples']]
        yield encoder.normalize(images), labels


@torch.no_grad()
def embed(encoder: Encoder, loader: dict) -> tuple[Tensor, Tensor]:
    """Average-pooled features (N, C) and labels (N, )."""
    pooled, labels = [], []
    for images, found in batches(encoder, loader):
        pooled.append(encoder(images)[0].mean(dim=(2, 3)))
        labels += found
    return torch.cat(pooled), torch.tensor(labels)


def main() -> None:
    """Write ``metrics.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config')
    parser.add_argument('checkpoint')
    parser.add_argument('--work-dir', type=Path, required=True,
                        help='gets metrics.json')
    add_cfg_options(parser)
    args = parser.parse_args()
    cfg = read_config(args.config, args.cfg_options)
    encoder = load_encoder(args.checkpoint, cfg)
    init_default_scope('mmpretrain')
    queries = cfg.val_dataloader
    neighbors = dict(queries, dataset=dict(
        cfg.train_dataloader.dataset, pipeline=queries.dataset.pipeline))
    found = describe_embeddings(
        encoder, (images for images, _ in batches(encoder, queries)))
    metrics = {'k-NN': knn_accuracy(*embed(encoder, neighbors),
                                    *embed(encoder, queries)),
               **{name: found[key] for name, key in NAMES.items()}}
    args.work_dir.mkdir(parents=True, exist_ok=True)
    (args.work_dir / 'metrics.json').write_text(json.dumps(metrics, indent=1))


if __name__ == '__main__':
    report_user_errors(main)
