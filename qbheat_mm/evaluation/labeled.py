# Copyright (c) QB-Heat MM authors. All rights reserved.
"""k-NN accuracy on class folders."""
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..datasets import NamedImageFolder
from ..errors import UserError
from ..trained.encoder import Encoder
from .embedding import embed_batches
from .knn import TEMPERATURE, K, knn_accuracy


class LabeledFolder:
    """Images in class folders, as FOLDER/CLASS/image.jpg.

    Args:
        folder (str): Folder that contains a folder for each class.
        classes (Sequence[str], optional): Class names that labels refer to.
            Defaults to the folder names, sorted.

    Attributes:
        labels (dict[str, int]): Class index by file.

    Raises:
        UserError: If there is no image, or a class is not in ``classes``.
    """

    def __init__(self, folder: str,
                 classes: Sequence[str] | None = None) -> None:
        data = NamedImageFolder(data_root=folder, pipeline=[])
        names = data.metainfo['classes']
        self.folder, self.classes = folder, tuple(classes or names)
        self.labels = {}
        for i in range(len(data)):
            info = data.get_data_info(i)
            name = names[info['gt_label']]
            if name not in self.classes:
                raise UserError(f'class {name!r} of folder {folder!r} is '
                                'missing from the other folder')
            self.labels[info['img_path']] = self.classes.index(name)

    def __len__(self) -> int:
        return len(self.labels)


def knn_of_folders(encoder: Encoder,
                   train: LabeledFolder,
                   val: LabeledFolder | None = None,
                   k: int = K,
                   temperature: float = TEMPERATURE,
                   watch: Callable[[int], Any] = lambda number: None,
                   **options: Any) -> float:
    """Embed labeled images and compute their k-NN accuracy in percent.

    Args:
        encoder (Encoder): See :func:`load_encoder`.
        train (LabeledFolder): Images used as neighbors.
        val (LabeledFolder, optional): Images to classify. Defaults to
            ``train``, leaving one out.
        k (int): Number of neighbors. Defaults to 20.
        temperature (float): Softmax temperature of the votes. Defaults to
            0.07.
        watch (Callable): Callback for the number of images in each batch.
            Defaults to nothing.
        **options: ``pool``, ``size``, ``batch_size`` and ``workers`` for
            :func:`embed_batches`.

    Returns:
        float: Accuracy in percent. Unreadable images are skipped with a
        warning.

    Raises:
        UserError: If there is only one image, or an argument is invalid.
    """
    if len(train) == 1 and val is None:
        raise UserError(f'folder {train.folder!r} contains only one image')

    def embed(data: LabeledFolder) -> tuple[np.ndarray, np.ndarray]:
        labels, vectors = [], []
        for names, part in embed_batches(
                encoder, [(file, file) for file in data.labels], **options):
            labels += [data.labels[name] for name in names]
            vectors.append(part)
            watch(len(names))
        return np.concatenate(vectors), np.array(labels)

    neighbors = embed(train)
    queries = () if val is None else embed(val)
    return knn_accuracy(*neighbors, *queries, k=k, temperature=temperature)
