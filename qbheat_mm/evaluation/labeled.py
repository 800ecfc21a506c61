# Copyright (c) QB-Heat MM authors. All rights reserved.
"""k-NN accuracy on folders of classes."""
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mmengine.logging import print_log

from ..datasets import NamedImageFolder
from ..errors import UserError
from ..trained.encoder import Encoder
from .embedding import embed_batches
from .knn import TEMPERATURE, K, knn_accuracy


@dataclass(frozen=True)
class LabeledFolder:
    """The images of a folder ``CLASS/...``.

    Attributes:
        folder (str): As given.
        labels (dict[str, int]): Files and their classes' indices.
        classes (tuple[str, ...]): Names of the folders, sorted.
    """
    folder: str
    labels: dict[str, int]
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)


def labeled_folder(folder: str,
                   classes: Sequence[str] | None = None) -> LabeledFolder:
    """List the images of a folder of classes.

    Args:
        folder (str): With one folder for each class.
        classes (Sequence[str], optional): What labels index. Defaults to the
            folders themselves.

    Raises:
        UserError: If there is no image, or a class is not among ``classes``.
    """
    data = NamedImageFolder(data_root=folder, pipeline=[])
    names = data.metainfo['classes']
    classes = tuple(classes or names)
    labels = {}
    for info in map(data.get_data_info, range(len(data))):
        name = names[info['gt_label']]
        if name not in classes:
            raise UserError(f'folder {folder!r} has the class {name!r}, '
                            'which the other folder does not have')
        labels[info['img_path']] = classes.index(name)
    return LabeledFolder(folder, labels, classes)


def knn_of_folders(encoder: Encoder,
                   train: LabeledFolder,
                   val: LabeledFolder | None = None,
                   k: int = K,
                   temperature: float = TEMPERATURE,
                   watch: Callable[[int], Any] = lambda number: None,
                   **options: Any) -> float:
    """Embed labeled images and classify them by their neighbors.

    Args:
        encoder (Encoder): See :func:`load_encoder`.
        train (LabeledFolder): The neighbors.
        val (LabeledFolder, optional): Images to classify. Defaults to those
            of ``train``, each by all the others.
        k (int): Neighbors that vote. Defaults to 20.
        temperature (float): Of their weights. Defaults to 0.07.
        watch (Callable): Called with the number of images of each batch.
            Defaults to nothing.
        **options: ``pool``, ``size``, ``batch_size`` and ``workers`` of
            :func:`embed_batches`.

    Returns:
        float: Percentage of images classified correctly. Unreadable images
        are skipped with a warning.

    Raises:
        UserError: If there is only one image, or an argument is impossible.
    """
    neighbors = len(train) - (val is None)
    if not neighbors:
        raise UserError(f'folder {train.folder!r} holds one image, which has '
                        'no neighbor')
    if k >= neighbors:
        print_log(f'k={k}, and there are {neighbors} neighbors: all vote, '
                  'which favors the largest class', logger='current',
                  level=logging.WARNING)

    def embed(data: LabeledFolder) -> tuple[np.ndarray, np.ndarray]:
        labels, vectors = [], []
        for names, part in embed_batches(
                encoder, [(file, file) for file in data.labels], **options):
            labels += [data.labels[name] for name in names]
            vectors.append(part)
            watch(len(names))
        return np.concatenate(vectors), np.array(labels)

    sets = [embed(data) for data in (train, val) if data is not None]
    return knn_accuracy(*(part for data in sets for part in data), k=k,
                        temperature=temperature)
