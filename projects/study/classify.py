# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Classify images from frozen features, or from features without learning.

The config is one of `lin`: it names the training and test images.
"""
import argparse
import json
from pathlib import Path

import numpy as np
from mmengine.config import Config

from qbheat_mm.apis import load_encoder
from qbheat_mm.cli.arguments import add_cfg_options
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.config.reading import read_config
from qbheat_mm.evaluation.features import (
    BASELINES,
    extract_features,
    pooled_extractor,
    require_equal_classes,
    select,
)
from qbheat_mm.evaluation.kernels import MAX_IMAGES, choose


def image_loaders(cfg: Config) -> tuple[dict, dict]:
    """Loaders of training and test images, without augmentation.

    Raises:
        UserError: If their classes differ.
    """
    tested = cfg.val_dataloader
    train = dict(cfg.train_dataloader.dataset,
                 pipeline=tested.dataset.pipeline)
    require_equal_classes(train, tested.dataset)
    return dict(tested, dataset=train), dict(tested)


def parse_args(description: str) -> argparse.Namespace:
    """Read the command line of a probe."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument('config')
    parser.add_argument('features', help="an encoder's checkpoint, or "
                        f'{" or ".join(BASELINES)}')
    parser.add_argument('--work-dir', type=Path, required=True,
                        help='gets metrics.json')
    add_cfg_options(parser)
    return parser.parse_args()


def write_metrics(work_dir: Path, metrics: dict[str, float]) -> None:
    """Write ``metrics.json``."""
    work_dir.mkdir(parents=True, exist_ok=True)
    (work_dir / 'metrics.json').write_text(json.dumps(metrics, indent=1))


def main() -> None:
    """Classify with the better of ridge regression and an SVM."""
    args = parse_args(__doc__)
    cfg = read_config(args.config, args.cfg_options)
    extract = BASELINES.get(args.features) or pooled_extractor(
        load_encoder(args.features))
    train_images, test_images = image_loaders(cfg)
    train, labels = extract_features(extract, train_images)
    rows = np.random.default_rng(0).permutation(len(labels))[:MAX_IMAGES]
    write_metrics(args.work_dir, choose(
        select(train, rows), labels[rows],
        *extract_features(extract, test_images)))


if __name__ == '__main__':
    report_user_errors(main)
