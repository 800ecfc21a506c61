# Copyright (c) QB-Heat MM authors. All rights reserved.
"""k-NN accuracy on folders of classes."""
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mmengine.logging import print_log

from ..datasets import NamedImageFolder
from ..errors import UserError
from .embedding import embed_batches
from .encoder import Encoder
from .knn import TEMPERATURE, K, knn_accuracy


@dataclass(frozen=True)
class LabelledFolder:
    """The images of a folder ``CLASS/...``.

    Attributes:
        folder (str): As given.
        files (list[str]): All of its images.
        labels (list[int]): Indices of their classes.
        classes (tuple[str, ...]): Names of the folders, sorted.
    """
    folder: str
    files: list[str]
    labels: list[int]
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.files)


def labelled_folder(folder: str,
                    classes: Sequence[str] | None = None) -> LabelledFolder:
    """List the images of a folder of classes.

    Args:
        folder (str): With one folder for each class.
        classes (Sequence[str], optional): What labels index; by default the
            folders themselves.

    Raises:
        UserError: If there is no image, or a class is not among ``classes``.
    """
    data = NamedImageFolder(data_root=folder, pipeline=[])
    infos = [data.get_data_info(i) for i in range(len(data))]
    names = [data.metainfo['classes'][info['gt_label']] for info in infos]
    classes = tuple(classes or data.metainfo['classes'])
    unknown = sorted({*names} - {*classes})
    if unknown:
        raise UserError(f'folder {folder!r} has the class {unknown[0]!r}, '
                        'which the other folder does not have')
    return LabelledFolder(
        folder, [info['img_path'] for info in infos],
        [classes.index(name) for name in names], classes)


def knn_of_folders(encoder: Encoder,
                   train: LabelledFolder,
                   val: LabelledFolder | None = None,
                   k: int = K,
                   temperature: float = TEMPERATURE,
                   **options: Any) -> float:
    """Embed labeled images and classify them by their neighbors.

    Args:
        encoder (Encoder): See :func:`load_encoder`.
        train (LabelledFolder): The neighbors.
        val (LabelledFolder, optional): Images to classify. By default those
            of ``train``, each by all the others.
        k (int): Neighbors that vote. Defaults to 20.
        temperature (float): Of their weights. Defaults to 0.07.
        **options: ``pool``, ``size``, ``batch_size`` and ``workers`` of
            :func:`embed_batches`; ``watch``, called with the number of
            images of each batch.

    Returns:
        float: Percentage of images whose class was found. Unreadable images
        are left out, each with a warning.

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
    bank = _embed(encoder, train, **options)
    queries = () if val is None else _embed(encoder, val, **options)
    return knn_accuracy(*bank, *queries, k=k, temperature=temperature)


def _embed(encoder: Encoder, data: LabelledFolder, watch=None,
           **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings (N, D) and labels (N,)."""
    label_of = dict(zip(data.files, data.labels))
    labels, vectors = [], []
    for names, part in embed_batches(
            encoder, [(file, file) for file in data.files], **options):
        labels += [label_of[name] for name in names]
        vectors.append(part)
        if watch is not None:
            watch(len(names))
    return np.concatenate(vectors), np.array(labels)
