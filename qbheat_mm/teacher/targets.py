# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Predict the features of a published encoder."""
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from mmengine.dataset import BaseDataset
from mmengine.registry import MODELS
from mmpretrain.structures import DataSample
from torch import Tensor
from torchvision.ops import roi_align

from ..datasets.crop_box import require_crop_box
from ..datasets.selection import spread
from ..errors import UserError
from ..models.layers.autocast import outside_autocast
from ..models.selfsup import TargetGenerator
from ..trained.normalization import Normalization, Normalize
from .map_folder import MapFolder
from .teacher import Teacher

#: Images whose maps give the mean and deviation of each channel.
STATISTICS = 5000
#: Smallest deviation of a channel, relative to the mean of all.
MIN_STD = 0.1


class Crops(NamedTuple):
    """Maps of images, and the part of each that the student sees.

    Attributes:
        maps: (B, C, h, w) each.
        boxes: Corners x1, y1, x2, y2 as shares of the image, (B, 4).
        flips: Horizontal and vertical flips, (B, 2), bool.
    """
    maps: list[Tensor]
    boxes: Tensor
    flips: Tensor

    def sample(self, grid: tuple[int, int]) -> Tensor:
        """Sample the boxes on a grid, (B, C of all maps, rows, columns)."""
        parts = []
        for index in range(len(self.maps)):
            parts.append(self.sample_map(index, grid))
        return torch.cat(parts, 1)

    def sample_map(self, index: int, grid: tuple[int, int]) -> Tensor:
        """Sample the boxes of one map on a grid, (B, C, rows, columns)."""
        maps = self.maps[index]
        numbers = torch.arange(len(self.boxes)).to(self.boxes)
        height, width = maps.shape[2:]
        corners = self.boxes * self.boxes.new_tensor(
            [width, height, width, height])
        cells = roi_align(maps, torch.cat([numbers[:, None], corners], 1),
                          grid, aligned=True)
        for axis, flip in ((3, self.flips[:, 0]), (2, self.flips[:, 1])):
            cells = torch.where(flip.view(-1, 1, 1, 1), cells.flip(axis),
                                cells)
        return cells


class OnlineMaps:
    """Run the teacher on each crop.

    Args:
        teacher (Teacher): The teacher.
        normalization (Normalization): The student's input normalization.
    """

    def __init__(self, teacher: Teacher,
                 normalization: Normalization) -> None:
        self.teacher = teacher
        self.normalize = Normalize(normalization)

    def crops(self, images: Tensor,
              data_samples: Sequence[DataSample]) -> Crops:
        """Return the maps of normalized images (B, 3, H, W)."""
        self.normalize.to(images.device)
        pixels = self.normalize.inverse(images.float()).clamp(0, 255)
        whole = images.new_tensor([0., 0., 1., 1.], dtype=torch.float32)
        flips = torch.zeros(len(images), 2, dtype=torch.bool,
                            device=images.device)
        return Crops(self.teacher(pixels), whole.repeat(len(images), 1),
                     flips)


class StoredMaps:
    """Crop the maps of whole images, computed once.

    Args:
        maps (MapFolder): The maps.
    """

    def __init__(self, maps: MapFolder) -> None:
        self.maps = maps

    def crops(self, images: Tensor,
              data_samples: Sequence[DataSample]) -> Crops:
        """See :class:`OnlineMaps`."""
        rows = [sample.sample_idx for sample in data_samples]
        boxes, flips = boxes_and_flips(data_samples)
        flat = self.maps[rows].to(images.device, non_blocking=True).float()
        return Crops(self.maps.split(flat), boxes.to(images.device),
                     flips.to(images.device))


def boxes_and_flips(data_samples: Sequence[DataSample]
                    ) -> tuple[Tensor, Tensor]:
    """Convert the ``crop_box`` of each sample, see :class:`Crops`."""
    borders = torch.tensor([sample.crop_box for sample in data_samples])
    first, last = borders[:, :2], borders[:, 2:]
    boxes = torch.cat([first.minimum(last), first.maximum(last)], 1)
    return boxes, first > last


class Standardization(NamedTuple):
    """Subtract each channel's mean, divide by its standard deviation.

    Attributes:
        mean, std: (C, ), over training images.
    """
    mean: Tensor
    std: Tensor

    @classmethod
    def of(cls, batches: Iterable[list[Tensor]],
           groups: Sequence[int] | None = None) -> 'Standardization':
        """Compute the statistics of batches of maps (B, C, h, w).

        ``groups`` has the numbers of channels that are compared with each
        other for the smallest deviation. Defaults to all.
        """
        total = squares = torch.zeros(())
        images = 0
        for maps in batches:
            flat = [each.flatten(2).double() for each in maps]
            total = total + torch.cat([each.mean(2).sum(0) for each in flat])
            squares = squares + torch.cat(
                [each.square().mean(2).sum(0) for each in flat])
            images += len(maps[0])
        mean = total / images
        std = (squares / images - mean**2).clamp(min=0).sqrt()
        # Channels that hardly ever change don't drown the others.
        parts = []
        for part in std.split(groups or [len(std)]):
            parts.append(part.clamp(min=MIN_STD * part.mean()))
        return cls(mean.float(), torch.cat(parts).float())

    def split(self, groups: Sequence[int]) -> list['Standardization']:
        """Split into groups of channels."""
        return list(map(Standardization, self.mean.split(groups),
                        self.std.split(groups)))

    def to(self, device: torch.device | str) -> 'Standardization':
        """Move to a device."""
        return Standardization(self.mean.to(device), self.std.to(device))

    def __call__(self, features: Tensor) -> Tensor:
        """Standardize features (B, L, C)."""
        return (features - self.mean) / self.std


class Targets(NamedTuple):
    """The standardized features of a teacher.

    Attributes:
        source: Where the teacher's maps come from.
        standardize: Statistics of their channels.
    """
    source: OnlineMaps | StoredMaps
    standardize: Standardization

    def __call__(self, images: Tensor, data_samples: Sequence[DataSample],
                 grid: tuple[int, int]) -> Tensor:
        """See :class:`TargetGenerator`."""
        cells = self.source.crops(images, data_samples).sample(grid)
        return self.standardize(cells.flatten(2).transpose(1, 2))

    def of_maps(self, images: Tensor, data_samples: Sequence[DataSample],
                wanted: Sequence[tuple[int, tuple[int, int]]]
                ) -> list[Tensor]:
        """Return targets (B, L, C) of pairs of a map's index and a grid."""
        crops = self.source.crops(images, data_samples)
        standardize = self.standardize.split(
            [maps.shape[1] for maps in crops.maps])
        targets = []
        for index, grid in wanted:
            cells = crops.sample_map(index, grid)
            targets.append(standardize[index](
                cells.flatten(2).transpose(1, 2)))
        return targets


@MODELS.register_module()
class EncoderTarget(TargetGenerator):
    """The features of another encoder, a teacher, at each position.

    Channels are standardized over the training images. The teacher encodes
    each whole image once, before training; a step crops its maps by RoIAlign
    (Mask R-CNN) to the box that the student sees. A hook, ``TeacherHook``,
    calls :meth:`prepare`.

    Args:
        encoder (str): File of the teacher, e.g. written by
            ``tools/published.py``. It may be a transformer.
        out_indices (Sequence[int], optional): Its maps. Defaults to the last
            one.
        size (int, optional): Side of its input. Defaults to that of its
            training. A larger one gives finer maps.
        online (bool): Run the teacher on each crop, in every step. Defaults
            to False.
        folder (str, optional): Folder of the maps. Defaults to the work
            folder. Runs with the same folder share them.
        multi_scale (bool): Take the deepest map of each stride, see
            :class:`Teacher`. Defaults to False.

    Attributes:
        targets (Targets, optional): None before :meth:`prepare`.
    """

    def __init__(self,
                 encoder: str,
                 out_indices: Sequence[int] | None = None,
                 size: int | None = None,
                 online: bool = False,
                 folder: str | None = None,
                 multi_scale: bool = False) -> None:
        super().__init__()
        self.encoder = encoder
        self.out_indices = out_indices
        self.size = size
        self.online = online
        self.folder = folder
        self.multi_scale = multi_scale
        #: Strides of the maps, if several; None before :meth:`select`.
        self.strides: list[int] | None = None
        self.targets: Targets | None = None

    @cached_property
    def teacher(self) -> Teacher:
        """The teacher, loaded on first use.

        Models of given channels, such as those of trained checkpoints, are
        built without its file.
        """
        teacher = Teacher(self.encoder, self.out_indices, self.size,
                          self.multi_scale)
        if self.strides is not None:
            teacher.select(self.strides)
        return teacher

    def select(self, strides: Sequence[int]) -> None:
        """Take the maps of these strides only, if they are several."""
        self.strides = sorted(set(strides))
        if 'teacher' in vars(self):  # loaded
            self.teacher.select(self.strides)

    @property
    def channels(self) -> int:
        """Channels of the teacher's maps."""
        return self.teacher.channels

    def prepare(self, dataset: BaseDataset, folder: str,
                normalization: Normalization,
                device: torch.device | str = 'cpu', workers: int = 0) -> None:
        """Encode the training images, or the sample for the statistics.

        Args:
            dataset (BaseDataset): The training images.
            folder (str): Folder of the maps, unless one is set.
            normalization (Normalization): The student's input normalization.
            device (torch.device | str): Device of the teacher. Defaults to
                'cpu'.
            workers (int): Processes that load images. Defaults to 0.

        Raises:
            UserError: See :class:`Teacher`, :class:`MapFolder` and
                :func:`require_crop_box`.
        """
        if not self.online and isinstance(dataset, BaseDataset):
            require_crop_box(dataset.pipeline)
        self.teacher.encoder.to(device)
        rows = spread(range(len(dataset)), STATISTICS)
        groups = None
        if self.multi_scale:
            groups = [shape[0] for shape in self.teacher.shapes]
        if self.online:
            self.teacher.reduce(dataset, workers)
            source = OnlineMaps(self.teacher, normalization)
            batches = self.teacher.encode_images(dataset, rows, workers)
        else:
            maps = MapFolder(self.teacher, dataset, self.folder or folder,
                             workers)
            source = StoredMaps(maps)
            del self.teacher  # frees its memory
            batches = (maps.split(maps[rows[i:i + 256]])
                       for i in range(0, len(rows), 256))
        self.targets = Targets(
            source, Standardization.of(batches, groups).to(device))

    @torch.no_grad()
    def forward(self, images: Tensor, data_samples: Sequence[DataSample],
                grid: tuple[int, int]) -> Tensor:
        """See :class:`TargetGenerator`.

        Raises:
            UserError: If :meth:`prepare` was not called.
        """
        with outside_autocast(images):
            return self._prepared()(images, data_samples, grid)

    @torch.no_grad()
    def of_maps(self, images: Tensor, data_samples: Sequence[DataSample],
                wanted: Sequence[tuple[int, tuple[int, int]]]
                ) -> list[Tensor]:
        """Return the targets of several maps, each on a grid of its own.

        Args:
            images, data_samples: See :class:`TargetGenerator`.
            wanted (Sequence[tuple]): Stride of a map, and rows and columns
                of the grid.

        Returns:
            list[Tensor]: (B, rows * columns, C) each.

        Raises:
            UserError: If :meth:`prepare` was not called.
        """
        by_index = []
        for stride, grid in wanted:
            by_index.append((self.strides.index(stride), grid))
        with outside_autocast(images):
            return self._prepared().of_maps(images, data_samples, by_index)

    def _prepared(self) -> Targets:
        if self.targets is None:
            raise UserError('EncoderTarget has encoded no image: add '
                            "dict(type='TeacherHook') to custom_hooks")
        return self.targets
