# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The accuracy of nearest neighbours as a metric of mmengine."""
import os.path as osp
from collections.abc import Sequence
from functools import lru_cache

import torch
from mmengine.evaluator import BaseMetric
from mmpretrain.registry import METRICS

from ..arguments import POSITIVE, POSITIVE_INT, TEXT, checked, optional
from ..errors import UserError
from .knn import TEMPERATURE, K, knn_accuracy


@METRICS.register_module()
class KNNAccuracy(BaseMetric):
    """Accuracy of the k nearest neighbours, see :mod:`.knn`.

    It reads ``gt_label`` and the embeddings that ``EmbeddingHead`` puts into
    the samples, so that any encoder in an ``ImageClassifier`` can be judged
    in the validation or test of a runner, by one process or by several.

    Args:
        bank (str, optional): Folder of the labelled images that are the
            neighbours; all others are classified. The data set holds both,
            as ``ConcatDataset``. By default each image is classified by all
            the others.
        k (int): How many neighbours vote. Defaults to 20.
        temperature (float): Of their weights. Defaults to 0.07.
        collect_device (str): As in ``BaseMetric``. Defaults to 'cpu'.
        prefix (str, optional): As in ``BaseMetric``. Defaults to None,
            which is 'knn'.
    """
    default_prefix = 'knn'

    @checked(bank=optional(TEXT), k=POSITIVE_INT, temperature=POSITIVE)
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
        """Keep embedding, label and place of each sample.

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
        """``top1``, in per cent.

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
    """Whether a file lies in a folder or in one inside it.

    Where it is a link its own place counts, not that of what it points to.
    """
    return path is not None and _holds(osp.dirname(osp.abspath(path)), folder)


@lru_cache(maxsize=4096)
def _holds(inner: str, folder: str) -> bool:
    """Whether a folder is another, by whatever name, or lies in it."""
    outer = osp.dirname(inner)
    if osp.exists(inner) and osp.exists(folder) and osp.samefile(
            inner, folder):
        return True
    return outer != inner and _holds(outer, folder)
