# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Crops of boxes, and whole images, to encode and to show."""
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import torch
from mmpretrain.structures import DataSample
from torch.utils.data import Dataset

from ..datasets import fit, read_image
from .features import choose_few


class Pictures(Dataset):
    """Images of one size, in memory.

    Args:
        images (Sequence[np.ndarray]): (H, W, 3), BGR, uint8.
        labels (Sequence[int]): Their classes.
    """

    def __init__(self, images: Sequence[np.ndarray],
                 labels: Sequence[int]) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> dict:
        pixels = np.ascontiguousarray(self.images[index].transpose(2, 0, 1))
        return dict(
            inputs=torch.from_numpy(pixels),
            data_samples=DataSample().set_gt_label(self.labels[index]))

    def loader(self, batch_size: int) -> dict:
        """Settings of a loader, as for :func:`extract_features`."""
        return dict(
            batch_size=batch_size, num_workers=0, dataset=self,
            sampler=dict(type='DefaultSampler', shuffle=False),
            collate_fn=dict(type='default_collate'))


def load_crops(dataset: Dataset, number: int, side: int) -> Pictures:
    """Load the squares around some boxes, balanced over classes.

    Args:
        dataset (Dataset): Of mmdet.
        number (int): Boxes at most.
        side (int): Height and width of the crops in pixels.
    """
    boxes = []
    for index in range(len(dataset)):
        info = dataset.get_data_info(index)
        for instance in info['instances']:
            if not instance['ignore_flag']:
                boxes.append((info['img_path'], instance['bbox'],
                              instance['bbox_label']))
    labels = np.array([label for *_, label in boxes], int)
    by_file = defaultdict(list)
    for row in choose_few(labels, number, seed=0):
        by_file[boxes[row][0]].append(row)
    crops, chosen = [], []
    for file, rows in by_file.items():
        image = read_image(file)
        for row in rows:
            crops.append(fit(crop_square(image, boxes[row][1]), (side, side)))
            chosen.append(int(labels[row]))
    return Pictures(crops, chosen)


def crop_square(image: np.ndarray, box: Sequence[float]) -> np.ndarray:
    """Crop the square around a box, as far as it is within the image.

    Args:
        image (np.ndarray): (H, W, 3).
        box (Sequence[float]): Left, top, right and bottom.
    """
    corners = np.reshape(box, (2, 2))
    half = max((corners[1] - corners[0]).max() / 2, 1)
    center = corners.mean(0)
    left, top = np.maximum(np.floor(center - half), 0).astype(int)
    right, bottom = np.ceil(center + half).astype(int)
    return image[top:bottom, left:right]


def load_whole(dataset: Dataset, number: int, size: tuple[int, int]
               ) -> Pictures:
    """Load the first images at one size, height and width; labels are 0."""
    images = []
    for index in range(min(number, len(dataset))):
        file = dataset.get_data_info(index)['img_path']
        images.append(fit(read_image(file), size))
    return Pictures(images, [0] * len(images))
