# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Classify images from frozen features, with all labels and with a few.

The config names training and test images, the numbers of labels and the seed
that chooses them.
"""
from collections.abc import Mapping

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from projects.study.classify import image_loaders, parse_args, write_metrics
from qbheat_mm.apis import load_encoder
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.config.reading import read_config
from qbheat_mm.evaluation.features import (
    BASELINES,
    Parts,
    choose_few,
    describe_images,
    maps_by,
    pool_maps,
    select,
)
from qbheat_mm.evaluation.kernels import ridge, ridge_and_svm
from qbheat_mm.evaluation.probes import probe

#: Encoders and probes run here; ridge regression and SVM on the CPU.
DEVICE = 'cuda' if torch.cuda.is_available() else 'cpu'


def judge(known: Parts, labels: np.ndarray, new: Parts,
          new_labels: np.ndarray, steps: int, rates: Mapping[str, float]
          ) -> dict[str, float]:
    """Measure top-1 of every judge, in percent; probes need maps."""
    if 'pixels' not in known:
        return ridge_and_svm(known, labels, new, new_labels)
    metrics = {'ridge': ridge(
        pool_maps(known), labels, pool_maps(new), new_labels)}
    for kind, rate in rates.items():
        metrics[kind] = probe(
            kind, known, labels, new, new_labels, steps, rate, DEVICE)
    return metrics


def main() -> None:
    """Write ``metrics.json``."""
    args = parse_args(__doc__)
    cfg = read_config(args.config, args.cfg_options)
    seed = cfg.randomness.seed
    features = BASELINES.get(args.features) or maps_by(
        load_encoder(args.features, device=DEVICE))
    train, test = image_loaders(cfg)
    known, labels = describe_images(features, train)
    if cfg.tuning:
        rows, held = train_test_split(np.arange(len(labels)), test_size=1 / 3,
                                      stratify=labels, random_state=seed)
        new, new_labels = select(known, held), labels[held]
        known, labels = select(known, rows), labels[rows]
    else:
        new, new_labels = describe_images(features, test)
    metrics = judge(known, labels, new, new_labels, cfg.steps, cfg.rates)
    for count in cfg.label_counts:
        rows = choose_few(labels, count, seed)
        scores = judge(select(known, rows), labels[rows], new, new_labels,
                       cfg.steps // 2, cfg.rates)
        for name, score in scores.items():
            metrics[f'{name}, {count} labels'] = score
    write_metrics(args.work_dir, metrics)


if __name__ == '__main__':
    report_user_errors(main)
