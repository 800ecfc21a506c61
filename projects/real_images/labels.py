# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Choose a few labeled images."""
import numpy as np
from mmpretrain.registry import DATASETS

from qbheat_mm.datasets import NamedImageFolder
from qbheat_mm.evaluation.features import choose_few


@DATASETS.register_module()
class FewLabels(NamedImageFolder):
    """A few images of class folders.

    Args:
        count (int): See :func:`choose_few`.
        seed (int): See :func:`choose_few`.
    """

    def __init__(self, *args, count: int, seed: int, **kwargs) -> None:
        self.count, self.seed = count, seed
        super().__init__(*args, **kwargs)

    def load_data_list(self) -> list[dict]:
        """List the chosen images."""
        listed = super().load_data_list()
        labels = np.array([sample['gt_label'] for sample in listed])
        return [listed[row]
                for row in choose_few(labels, self.count, self.seed)]
