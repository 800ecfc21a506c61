# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Classify images from frozen features, with all labels and with a few.

The config names training and test images, the numbers of labels, and the seed
that chooses them and initializes the probes.
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
    Features,
    choose_few,
    extract_features,
    map_extractor,
    pool_maps,
    select,
)
from qbheat_mm.evaluation.kernels import ridge
from qbheat_mm.evaluation.probes import probe

#: Encoders and probes run here, ridge regression on the CPU.
DEVICE = 'cuda' if torch.cuda.is_available() else 'cpu'


def evaluate(train: Features, labels: np.ndarray, test: Features,
             test_labels: np.ndarray, steps: int, rates: Mapping[str, float],
             seed: int) -> dict[str, float]:
    """Measure top-1 of every probe, in percent; learned ones need maps."""
    learned = rates if 'pixels' in train else {}
    metrics = {}
    for kind, rate in learned.items():
        metrics[kind] = probe(kind, train, labels, test, test_labels, steps,
                              rate, DEVICE, seed)
    if learned:
        train, test = pool_maps(train), pool_maps(test)
    metrics['ridge'] = ridge(train, labels, test, test_labels)
    return metrics


def main() -> None:
    """Write ``metrics.json``."""
    args = parse_args(__doc__)
    cfg = read_config(args.config, args.cfg_options)
    seed = cfg.randomness.seed
    extract = BASELINES.get(args.features) or map_extractor(
        load_encoder(args.features, device=DEVICE))
    train_images, test_images = image_loaders(cfg)
    train, labels = extract_features(extract, train_images)
    if cfg.tuning:
        rows, held = train_test_split(np.arange(len(labels)), test_size=1 / 3,
                                      stratify=labels, random_state=seed)
        test, test_labels = select(train, held), labels[held]
        train, labels = select(train, rows), labels[rows]
    else:
        test, test_labels = extract_features(extract, test_images)
    metrics = evaluate(train, labels, test, test_labels, cfg.steps, cfg.rates,
                       seed)
    for count in cfg.label_counts:
        rows = choose_few(labels, count, seed)
        scores = evaluate(select(train, rows), labels[rows], test, test_labels,
                          cfg.steps // 2, cfg.rates, seed)
        for name, score in scores.items():
            metrics[f'{name}, {count} labels'] = score
    write_metrics(args.work_dir, metrics)


if __name__ == '__main__':
    report_user_errors(main)
