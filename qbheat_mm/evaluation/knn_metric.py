# Copyright (c) QB-Heat MM authors. All rights reserved.
"""k-NN accuracy as a metric of mmengine."""
import os.path as osp
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import torch
from mmengine.evaluator import BaseMetric
from mmpretrain.registry import METRICS

from ..errors import UserError
from .knn import TEMPERATURE, K, knn_accuracy


@METRICS.register_module()
class KNNAccuracy(BaseMetric):
    """Accuracy of the k nearest neighbors, see :mod:`.knn`.

    Works with any ``ImageClassifier`` whose head is ``EmbeddingHead``, in one
    process or several.

    Args:
        bank (str, optional): Folder of the labeled images that are the
            neighbors; all others are classified. The data set holds both, as
            ``ConcatDataset``. By default each image is classified by all the
            others.
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
            UserError: If the model gives no embeddings, or samples have no
                label.
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
                 self.bank is None or _lies_below(
                     sample.get('img_path'), self.bank)))

    def compute_metrics(self, results: list) -> dict[str, float]:
        """``top1``, in percent.

        Raises:
            UserError: If no image, or every image, lies in the bank.
        """
        embeddings = torch.stack([row[0] for row in results])
        labels = torch.tensor([row[1] for row in results])
        if self.bank is None:
            accuracy = knn_accuracy(embeddings, labels, k=self.k,
                                    temperature=self.temperature)
            return dict(top1=accuracy)
        inside = torch.tensor([row[2] for row in results])
        if inside.all() or not inside.any():
            raise UserError(
                f'KNNAccuracy: {int(inside.sum())} of {len(inside)} images '
                f'lie in bank={self.bank!r}: the data set must hold those '
                'and images to classify, as a ConcatDataset of both')
        return dict(top1=knn_accuracy(
            embeddings[inside], labels[inside], embeddings[~inside],
            labels[~inside], self.k, self.temperature))


def _lies_below(path: str | None, folder: str) -> bool:
    """Whether a file lies in a folder, also deeper.

    Of a link to a file its own place counts: splits are often links into one
    pool.
    """
    return path is not None and _holds(osp.dirname(path), folder)


@lru_cache(maxsize=4096)
def _holds(inner: str, folder: str) -> bool:
    return Path(inner).resolve().is_relative_to(Path(folder).resolve())
