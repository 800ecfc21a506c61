# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The images of a data set as a frozen encoder sees them: whole, once."""
from collections.abc import Sequence

import numpy as np
import torch
from mmengine.dataset import BaseDataset
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import Dataset

from ..datasets.images import ImageError
from ..datasets.transforms import LoadNamedImageFromFile
from ..errors import UserError


class WholeImages(Dataset):
    """Some images of a data set, resized without keeping the aspect ratio.

    JPEG files are decoded at a reduced size if that leaves twice the pixels
    that are needed.

    Args:
        dataset (BaseDataset): Data set of image files. Files are loaded as
            in its pipeline.
        rows (Sequence[int]): Indices of its images.
        size (tuple[int, int]): Height and width to resize to.

    Raises:
        UserError: If the data set is a wrapper, in which indices have
            another meaning.
    """

    def __init__(self, dataset: BaseDataset, rows: Sequence[int],
                 size: tuple[int, int]) -> None:
        if not isinstance(dataset, BaseDataset):
            raise UserError(
                f'train_dataloader.dataset.type={type(dataset).__name__}: a '
                'teacher needs a data set of image files, without wrappers')
        self.dataset = dataset
        self.rows = rows
        self.size = size
        first = dataset.pipeline.transforms[0]
        load = getattr(first, 'load', first)
        self.load = (load if isinstance(load, LoadNamedImageFromFile)
                     else LoadNamedImageFromFile())

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Tensor:
        """Return an image, (3, H, W), RGB, uint8; black if it is skipped."""
        info = self.dataset.get_data_info(self.rows[index])
        try:
            image = self._decode(info)
        except ImageError as error:
            self.load.skip(error)
            return torch.zeros(3, *self.size, dtype=torch.uint8)
        pixels = torch.from_numpy(np.ascontiguousarray(image[..., ::-1]))
        return F.interpolate(pixels.permute(2, 0, 1)[None], self.size,
                             mode='bicubic', antialias=True)[0]

    def _decode(self, info: dict) -> np.ndarray:
        file = self.load.open(info)
        height, width = self.size
        return self.load.decode(file, file.reduction(2 * height, 2 * width))
