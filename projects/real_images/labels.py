# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Choose a few labeled images."""
import numpy as np
from mmpretrain.registry import DATASETS

from qbheat_mm.datasets import NamedImageFolder


def few(labels: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Choose ``count`` images, balanced as far as classes have them.

    With the same seed, a smaller choice is part of a larger one.
    """
    order = np.random.default_rng(seed).permutation(len(labels))
    ranks = np.empty(len(labels), int)  # within the class
    for name in np.unique(labels):
        ranks[labels[order] == name] = np.arange((labels == name).sum())
    chosen = order[np.argsort(ranks, kind='stable')[:count]]
    return chosen[np.argsort(labels[chosen], kind='stable')]


@DATASETS.register_module()
class FewLabels(NamedImageFolder):
    """A few images of class folders.

    Args:
        count (int): See :func:`few`.
        seed (int): See :func:`few`.
    """

    def __init__(self, *args, count: int, seed: int, **kwargs) -> None:
        self.count, self.seed = count, seed
        super().__init__(*args, **kwargs)

    def load_data_list(self) -> list[dict]:
        """List the chosen images."""
        listed = super().load_data_list()
        rows = few(np.array([each['gt_label'] for each in listed]),
                   self.count, self.seed)
        return [listed[row] for row in rows]
