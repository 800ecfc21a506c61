# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The images of a data set as a frozen encoder sees them: whole, once."""
import hashlib
import os
from collections.abc import Mapping, Sequence

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
        if not isinstance(load, LoadNamedImageFromFile):
            load = LoadNamedImageFromFile(
                color_type=getattr(load, 'color_type', 'color'),
                backend_args=getattr(load, 'backend_args', None))
        self.load = load

    def fingerprint(self) -> str:
        """Hash the names, sizes and times of the files, and their loading."""
        loading = {}
        for name, value in sorted(vars(self.load).items()):
            if isinstance(value, str | int | float | Mapping | None):
                loading[name] = value
        found = hashlib.sha1(f'{loading}'.encode())
        for row in self.rows:
            path = self.dataset.get_data_info(row)['img_path']
            found.update(f'{path}\n'.encode())
            if os.path.isfile(path):
                facts = os.stat(path)
                found.update(f'{facts.st_size} {facts.st_mtime_ns}'.encode())
        return found.hexdigest()

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
