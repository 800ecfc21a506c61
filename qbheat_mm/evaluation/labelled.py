# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The accuracy of nearest neighbours of two folders of classes."""
import logging
import os
import os.path as osp
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
        labels (list[int]): Numbers of their classes.
        classes (tuple[str, ...]): Names of the folders, sorted.
    """
    folder: str
    files: list[str]
    labels: list[int]
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.files)


class _ClassFolders(NamedImageFolder):
    """A data set that was named as a folder, and not by settings."""
    given_by = 'the folder, which is to hold CLASS/image.jpg'


def labelled_folder(folder: str,
                    classes: Sequence[str] | None = None) -> LabelledFolder:
    """List the images of a folder of classes.

    Args:
        folder (str): With one folder for each class.
        classes (Sequence[str], optional): Those that labels count; by
            default the folders themselves.

    Raises:
        UserError: If there is no image, or a class is not among ``classes``.
    """
    if not osp.isdir(folder):
        raise UserError(f'folder of classes {folder!r} does not exist or is '
                        f'no folder: the path is taken from {os.getcwd()!r}')
    data = _ClassFolders(data_root=folder, pipeline=[])
    infos = [data.get_data_info(i) for i in range(len(data))]
    own = data.metainfo['classes']
    counted = {own[info['gt_label']] for info in infos}
    classes = tuple(own if classes is None else classes)
    unknown = sorted(counted - set(classes))
    if unknown:
        raise UserError(
            f'folder {folder!r} has images of the class {unknown[0]!r}, '
            f'which the other folder has not ({", ".join(classes[:5])}'
            f'{", ..." if len(classes) > 5 else ""}): give folders of the '
            'same classes')
    numbers = {name: i for i, name in enumerate(classes)}
    return LabelledFolder(
        folder, [info['img_path'] for info in infos],
        [numbers[own[info['gt_label']]] for info in infos], classes)


def knn_of_folders(encoder: Encoder,
                   train: LabelledFolder,
                   val: LabelledFolder | None = None,
                   k: int = K,
                   temperature: float = TEMPERATURE,
                   **options: Any) -> float:
    """Embed the images of labelled folders and classify by neighbours.

    Args:
        encoder (Encoder): See :func:`load_encoder`.
        train (LabelledFolder): The neighbours.
        val (LabelledFolder, optional): Images to classify. By default those
            of ``train``, each by all the others.
        k (int): How many neighbours vote. Defaults to 20.
        temperature (float): Of their weights. Defaults to 0.07.
        **options: ``pool``, ``size``, ``batch_size`` and ``workers`` of
            :func:`embed_batches`; ``watch``, called with each batch.

    Returns:
        float: Per cent of images whose class was found. Images that cannot
        be decoded are left out, with a warning each.

    Raises:
        UserError: If there is one image, which has no neighbour, or an
            argument is impossible.
    """
    neighbours = len(train) - (val is None)
    if val is None and len(train) < 2:
        raise UserError(f'folder {train.folder!r} holds one image, which has '
                        'no neighbour: give more, or another folder to '
                        'classify')
    if k >= neighbours:
        print_log(
            f'k={k} of {neighbours} neighbours: all vote on each image, so '
            'that the largest class is found more than the nearest; set k '
            'below the number of images of a class', logger='current',
            level=logging.WARNING)
    bank = _embed(encoder, train, **options)
    if val is None:
        return knn_accuracy(*bank, k=k, temperature=temperature)
    return knn_accuracy(*bank, *_embed(encoder, val, **options), k=k,
                        temperature=temperature)


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
