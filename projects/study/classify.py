# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Classify images from frozen features, or from features without learning.

The config is one of `lin`: it names the training and test images.
"""
import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from mmengine.config import Config
from mmengine.registry import init_default_scope
from mmengine.runner import Runner
from mmpretrain.registry import DATASETS
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from torch import Tensor

from qbheat_mm.apis import load_encoder
from qbheat_mm.cli import add_cfg_options, read_config, report_user_errors
from qbheat_mm.errors import UserError
from qbheat_mm.trained import Encoder

#: Maximum number of training images, since kernels grow quadratically.
MAX_IMAGES = 5000
RIDGE = dict(alpha=[1e1, 1e2, 1e3, 1e4, 1e5])
SVM = dict(C=[1., 10., 100.])
#: A batch of RGB images (B, 3, H, W), 0-255, to features (B, D) by name.
Features = Callable[[Tensor], Mapping[str, Tensor]]


def map_and_tokens(encoder: Encoder, images: Tensor) -> tuple[Tensor, Tensor]:
    """Last map (B, C, h, w) and tokens (B, T, d), a zero if there are none."""
    outs = encoder(encoder.normalize(images))
    *_, pixels = (out for out in outs if out.ndim == 4)
    *_, tokens = (pixels.new_zeros(len(pixels), 1, 1),
                  *(out for out in outs if out.ndim == 3))
    return pixels, tokens


def encoded(encoder: Encoder) -> Features:
    """Pool the last features, and append the first token."""

    def features(images: Tensor) -> dict[str, Tensor]:
        pixels, tokens = map_and_tokens(encoder, images)
        return {f'{n} x {n}': torch.cat(
            [F.adaptive_avg_pool2d(pixels, n).flatten(1), tokens[:, 0]],
            dim=1) for n in (1, 4)}

    return features


def hog(images: Tensor) -> dict[str, Tensor]:
    """Histograms of gradients, nine directions."""
    from skimage.feature import hog as describe
    return {f'cells of {n}': torch.from_numpy(np.stack([
        describe(image, 9, (n, n), (2, 2), channel_axis=0)
        for image in images.numpy()])).float() for n in (8, 16)}


def thumbnails(images: Tensor) -> dict[str, Tensor]:
    """Images of 16 x 16 pixels."""
    return {'16 x 16': F.adaptive_avg_pool2d(images, 16).flatten(1)}


BASELINES: dict[str, Features] = dict(hog=hog, thumbnails=thumbnails)


def image_loaders(cfg: Config) -> list[dict]:
    """Loaders of training and test images.

    Raises:
        UserError: If their classes differ.
    """
    init_default_scope('mmpretrain')
    tested = cfg.val_dataloader
    both = [dict(cfg.train_dataloader.dataset,
                 pipeline=tested.dataset.pipeline), tested.dataset]
    known, new = ({*DATASETS.build(data).metainfo['classes']}
                  for data in both)
    if known != new:
        raise UserError('give training and test images the same class '
                        'folders, perhaps empty ones: only one of them has '
                        f'{sorted(known ^ new)}')
    return [dict(tested, dataset=data) for data in both]


@torch.no_grad()
def describe_images(features: Features, loader: dict
                    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Features (N, D) by name, and labels (N, )."""
    parts, labels = [], []
    for batch in Runner.build_dataloader(loader):
        images = torch.stack(tuple(batch['inputs'])).flip(1)  # to RGB
        parts.append(features(images.float()))
        labels += [int(sample.gt_label) for sample in batch['data_samples']]
    return ({name: torch.cat([part[name] for part in parts]).numpy()
             for name in parts[0]}, np.array(labels))


def evaluate(train: np.ndarray, labels: np.ndarray, test: np.ndarray,
             test_labels: np.ndarray) -> dict[str, tuple[float, float]]:
    """Measure the accuracy in cross-validation and on test images, in %."""
    scale = StandardScaler().fit(train)
    train, test = scale.transform(train), scale.transform(test)
    gamma = 1 / train.shape[1]
    searches = {
        'ridge': (GridSearchCV(RidgeClassifier(), RIDGE, cv=3), train, test),
        'RBF': (GridSearchCV(SVC(kernel='precomputed'), SVM, cv=3),
                rbf_kernel(train, gamma=gamma),
                rbf_kernel(test, train, gamma=gamma))}
    found = {}
    for name, (search, known, new) in searches.items():
        search.fit(known, labels)
        found[name] = (100 * search.best_score_,
                       100 * search.score(new, test_labels))
    return found


def choose(train: Mapping[str, np.ndarray], labels: np.ndarray,
           test: Mapping[str, np.ndarray], test_labels: np.ndarray
           ) -> dict[str, float]:
    """Choose features and classifier by cross-validation, and test them.

    Returns:
        dict[str, float]: Test accuracies in percent: ``ridge`` and ``RBF``,
        on their best features, and ``top-1``, the better classifier's.
    """
    found = [evaluate(train[name], labels, test[name], test_labels)
             for name in train]
    best = {name: max((each[name] for each in found),
                      key=lambda scores: scores[0]) for name in found[0]}
    best['top-1'] = max(best.values(), key=lambda scores: scores[0])
    return {name: accuracy for name, (_, accuracy) in best.items()}


def parse_args(description: str) -> argparse.Namespace:
    """Read the command line of a judge."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument('config')
    parser.add_argument('features', help="an encoder's checkpoint, or "
                        f'{" or ".join(BASELINES)}')
    parser.add_argument('--work-dir', type=Path, required=True,
                        help='gets metrics.json')
    add_cfg_options(parser)
    return parser.parse_args()


def main() -> None:
    """Write ``metrics.json``."""
    args = parse_args(__doc__)
    cfg = read_config(args.config, args.cfg_options)
    features = BASELINES.get(args.features) or encoded(
        load_encoder(args.features))
    train, test = image_loaders(cfg)
    known, labels = describe_images(features, train)
    few = np.random.default_rng(0).permutation(len(labels))[:MAX_IMAGES]
    metrics = choose({name: part[few] for name, part in known.items()},
                     labels[few], *describe_images(features, test))
    args.work_dir.mkdir(parents=True, exist_ok=True)
    (args.work_dir / 'metrics.json').write_text(json.dumps(metrics, indent=1))


if __name__ == '__main__':
    report_user_errors(main)
