# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Classification by the nearest neighbors of an embedding.

The protocol is that of Wu et al., "Unsupervised Feature Learning via
Non-Parametric Instance Discrimination" (CVPR 2018, Section 3.4): the k
training images of the largest cosine similarity s vote for their classes
with the weight exp(s / 0.07). k = 20 is that of Caron et al., "Emerging
Properties in Self-Supervised Vision Transformers" (ICCV 2021, Section 4.1).
Masked models rank low by k-NN and high by probes: judge them by both.
"""
import os.path as osp
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from mmengine.evaluator import BaseMetric
from mmpretrain.registry import METRICS
from torch import Tensor
from torch.nn.functional import normalize

from ..errors import UserError

K = 20
TEMPERATURE = 0.07
#: Similarities computed at a time, 4 bytes each.
CHUNK = 2**24


@torch.no_grad()
def knn_classify(train: Tensor | np.ndarray,
                 labels: Tensor | np.ndarray,
                 queries: Tensor | np.ndarray | None = None,
                 k: int = K,
                 temperature: float = TEMPERATURE) -> np.ndarray:
    """Classify embeddings by their nearest neighbors.

    Args:
        train (Tensor | np.ndarray): Embeddings with labels, (N, D), on the
            device that computes.
        labels (Tensor | np.ndarray): Classes, (N,), integers from 0.
        queries (Tensor | np.ndarray, optional): Embeddings to classify,
            (M, D). Defaults to those of ``train``, each by all the others.
        k (int): Neighbors that vote; all if there are fewer. Defaults to 20.
        temperature (float): Of the weights exp(similarity / temperature).
            Defaults to 0.07.

    Returns:
        np.ndarray: Classes, (M,), int64.

    Raises:
        UserError: If embeddings are not finite, labels don't match them, or
            there is no neighbor.
    """
    bank, labels = _unit(train), torch.as_tensor(labels).long()
    leave_one_out = queries is None
    found = bank if leave_one_out else _unit(queries).to(bank.device)
    if labels.shape != bank.shape[:1]:
        raise UserError(f'{len(bank)} embeddings have labels of shape '
                        f'{tuple(labels.shape)}')
    if len(bank) <= leave_one_out:
        raise UserError(f'{len(bank)} embeddings have no neighbor')
    if k < 1 or not temperature > 0:
        raise UserError(f'k={k} must be at least 1 and '
                        f'temperature={temperature} above 0')
    labels, k = labels.to(bank.device), min(k, len(bank) - leave_one_out)
    num_classes = int(labels.max()) + 1
    rows = max(CHUNK // max(len(bank), num_classes), 1)
    classes = []
    for first in range(0, len(found), rows):
        similarity = found[first:first + rows] @ bank.T
        if leave_one_out:
            similarity.diagonal(first).fill_(-torch.inf)
        nearest, index = similarity.topk(k, dim=1)
        # Relative to the nearest: exp(1 / temperature) may overflow.
        weights = ((nearest - nearest[:, :1]) / temperature).exp()
        votes = weights.new_zeros(len(nearest), num_classes)
        votes.scatter_add_(1, labels[index], weights)
        classes.append(votes.argmax(dim=1).cpu())
    return torch.cat(classes).numpy()


def knn_accuracy(train: Tensor | np.ndarray,
                 train_labels: Tensor | np.ndarray,
                 queries: Tensor | np.ndarray | None = None,
                 query_labels: Tensor | np.ndarray | None = None,
                 k: int = K,
                 temperature: float = TEMPERATURE) -> float:
    """Percentage of embeddings that their neighbors classify correctly.

    Args:
        train, queries, k, temperature: See :func:`knn_classify`.
        train_labels (Tensor | np.ndarray): Classes of ``train``, (N,).
        query_labels (Tensor | np.ndarray, optional): Classes of ``queries``,
            (M,).

    Raises:
        UserError: See :func:`knn_classify`.
    """
    if (queries is None) != (query_labels is None):
        raise UserError('give both queries and query_labels, or neither')
    found = knn_classify(train, train_labels, queries, k, temperature)
    truth = torch.as_tensor(
        train_labels if queries is None else query_labels).cpu().numpy()
    if truth.shape != found.shape:
        raise UserError(f'{len(found)} embeddings have labels of shape '
                        f'{truth.shape}')
    return 100 * float((found == truth).mean())


def _unit(values: Tensor | np.ndarray) -> Tensor:
    """Scale embeddings (N, D) to length 1, in float32."""
    values = torch.as_tensor(values).float()
    if not values.isfinite().all():
        raise UserError('embeddings are NaN or infinite: the encoder '
                        'diverged, or its file is damaged')
    # The squares of large values would be infinite.
    largest = values.abs().amax(dim=1, keepdim=True)
    return normalize(values / largest.clamp(min=1e-30), dim=1)


@METRICS.register_module()
class KNNAccuracy(BaseMetric):
    """k-NN accuracy of an ``ImageClassifier`` with an ``EmbeddingHead``.

    Args:
        bank (str, optional): Folder of the labeled images that are the
            neighbors; all others are classified. The data set contains both,
            as ``ConcatDataset``. Defaults to None: each image is classified
            by all the others.
        k (int): Neighbors that vote. Defaults to 20.
        temperature (float): Of their weights. Defaults to 0.07.
        collect_device (str): As in ``BaseMetric``. Defaults to 'cpu'.
        prefix (str, optional): As in ``BaseMetric``. Defaults to 'knn'.
    """
    default_prefix = 'knn'

    def __init__(self,
                 bank: str | None = None,
                 k: int = K,
                 temperature: float = TEMPERATURE,
                 collect_device: str = 'cpu',
                 prefix: str | None = None) -> None:
        super().__init__(collect_device=collect_device, prefix=prefix)
        self.bank = bank
        self.k = k
        self.temperature = temperature

    def process(self, data_batch: Sequence[dict],
                data_samples: Sequence[dict]) -> None:
        """Keep embedding, label and membership in the bank of each sample.

        Raises:
            UserError: If the model computes no embeddings, or samples have
                no label.
        """
        for sample in data_samples:
            if 'embedding' not in sample or 'gt_label' not in sample:
                raise UserError(
                    'KNNAccuracy needs embedding and gt_label in each sample '
                    f'and found {sorted(sample)}: set '
                    "model.head=dict(type='EmbeddingHead') and a data set "
                    'with labels')
            self.results.append(
                (sample['embedding'].cpu(), int(sample['gt_label']),
                 self.bank is None or _is_below(
                     osp.dirname(sample['img_path']), self.bank)))

    def compute_metrics(self, results: list) -> dict[str, float]:
        """``top1``, in percent.

        Raises:
            UserError: If no image, or every image, lies in the bank.
        """
        embeddings = torch.stack([row[0] for row in results])
        labels = torch.tensor([row[1] for row in results])
        options = dict(k=self.k, temperature=self.temperature)
        if self.bank is None:
            return dict(top1=knn_accuracy(embeddings, labels, **options))
        inside = torch.tensor([row[2] for row in results])
        if inside.all() or not inside.any():
            raise UserError(
                f'KNNAccuracy: {int(inside.sum())} of {len(inside)} images '
                f'lie in bank={self.bank!r}: the data set must contain those '
                'and images to classify, as a ConcatDataset of both')
        return dict(top1=knn_accuracy(
            embeddings[inside], labels[inside], embeddings[~inside],
            labels[~inside], **options))


@lru_cache(maxsize=4096)
def _is_below(folder: str, root: str) -> bool:
    """Whether a folder is another or lies in it, by their real paths.

    Links to folders are followed, links to files are not: splits are often
    links into one pool.
    """
    return Path(folder).resolve().is_relative_to(Path(root).resolve())
