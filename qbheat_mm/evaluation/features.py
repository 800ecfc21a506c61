# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Features of labeled images, from a frozen encoder or without learning."""
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from mmengine.registry import DefaultScope
from mmengine.runner import Runner
from mmpretrain.registry import DATASETS
from torch import Tensor

from ..errors import UserError
from ..trained.encoder import Encoder

#: A batch of RGB images (B, 3, H, W), 0-255, to features by name, one per
#: image: vectors (B, D), or maps (B, C, h, w) and tokens (B, T, d).
Extractor = Callable[[Tensor], Mapping[str, Tensor]]
#: Features of a data set by name, one per image.
Features = Mapping[str, np.ndarray]
#: Side of the maps that probes see: equal for all encoders, and cheap.
SIDE = 5


def map_and_tokens(encoder: Encoder, images: Tensor) -> tuple[Tensor, Tensor]:
    """Last map (B, C, h, w) and tokens (B, T, d), a zero if there are none."""
    device = next(encoder.parameters()).device
    outs = encoder(encoder.normalize(images.to(device)))
    *_, pixels = (out for out in outs if out.ndim == 4)
    tokens = pixels.new_zeros(len(pixels), 1, 1)
    for out in outs:
        if out.ndim == 3:
            tokens = out
    return pixels, tokens


def pool(pixels: Tensor, tokens: Tensor, side: int) -> Tensor:
    """Pool maps to ``side`` x ``side``, and append the first token; (B, D)."""
    pooled = F.adaptive_avg_pool2d(pixels, side).flatten(1)
    return torch.cat([pooled, tokens[:, 0]], dim=1)


def pooled_extractor(encoder: Encoder) -> Extractor:
    """Return an extractor of pooled features, for kernel classifiers."""

    def extract(images: Tensor) -> dict[str, Tensor]:
        pixels, tokens = map_and_tokens(encoder, images)
        return {'1 x 1': pool(pixels, tokens, 1).cpu(),
                '4 x 4': pool(pixels, tokens, 4).cpu()}

    return extract


def map_extractor(encoder: Encoder) -> Extractor:
    """Return an extractor of maps and tokens, for probes."""

    def extract(images: Tensor) -> dict[str, Tensor]:
        pixels, tokens = map_and_tokens(encoder, images)
        pixels = F.adaptive_avg_pool2d(pixels, SIDE)
        return dict(pixels=pixels.cpu(), tokens=tokens.cpu())

    return extract


def pool_maps(features: Features) -> dict[str, np.ndarray]:
    """Pool the features of :func:`map_extractor` to vectors, in two ways."""
    pixels = torch.from_numpy(features['pixels'])
    tokens = torch.from_numpy(features['tokens'])
    return {'1 x 1': pool(pixels, tokens, 1).numpy(),
            '2 x 2': pool(pixels, tokens, 2).numpy()}


def hog(images: Tensor) -> dict[str, Tensor]:
    """Histograms of gradients, nine directions; needs scikit-image."""
    from skimage.feature import hog as histograms
    features = {}
    for side in (8, 16):
        vectors = [histograms(image, 9, (side, side), (2, 2), channel_axis=0)
                   for image in images.numpy()]
        features[f'cells of {side}'] = torch.from_numpy(
            np.stack(vectors)).float()
    return features


def thumbnails(images: Tensor) -> dict[str, Tensor]:
    """Images of 16 x 16 pixels."""
    return {'16 x 16': F.adaptive_avg_pool2d(images, 16).flatten(1)}


#: Extractors without learning.
BASELINES: dict[str, Extractor] = dict(hog=hog, thumbnails=thumbnails)


def require_equal_classes(train: dict, test: dict) -> None:
    """Raise UserError if the settings of two data sets differ in classes."""
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        train_classes = {*DATASETS.build(train).metainfo['classes']}
        test_classes = {*DATASETS.build(test).metainfo['classes']}
    if train_classes != test_classes:
        raise UserError('give training and test images the same class '
                        'folders, perhaps empty ones: only one of them has '
                        f'{sorted(train_classes ^ test_classes)}')


@torch.no_grad()
def extract_features(extract: Extractor, loader: dict,
                     watch: Callable[[int], Any] = lambda number: None
                     ) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Compute the features of labeled images.

    Args:
        extract (Callable): See ``Extractor``.
        loader (dict): Settings of a data loader.
        watch (Callable): Callback for the number of images in each batch.

    Returns:
        tuple: Features by name, one per image, and labels (N, ).
    """
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        loaded = Runner.build_dataloader(loader)
    batches, labels = [], []
    for batch in loaded:
        images = torch.stack(tuple(batch['inputs'])).flip(1)  # to RGB
        batches.append(extract(images.float()))
        for sample in batch['data_samples']:
            labels.append(int(sample.gt_label))
        watch(len(images))
    features = {}
    for name in batches[0]:
        features[name] = torch.cat([batch[name] for batch in batches]).numpy()
    return features, np.array(labels)


def choose_few(labels: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Choose ``count`` images, balanced as far as classes have them.

    With the same seed, a smaller choice is part of a larger one.

    Returns:
        np.ndarray: Their indices, by class.
    """
    order = np.random.default_rng(seed).permutation(len(labels))
    ranks = np.empty(len(labels), int)  # within the class
    for name in np.unique(labels):
        ranks[labels[order] == name] = np.arange((labels == name).sum())
    chosen = order[np.argsort(ranks, kind='stable')[:count]]
    return chosen[np.argsort(labels[chosen], kind='stable')]


def select(features: Features, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Select the features of some images."""
    return {name: values[rows] for name, values in features.items()}
