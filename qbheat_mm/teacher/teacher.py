# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Frozen encoders whose features are targets."""
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence

import torch
from mmengine.dataset import BaseDataset
from mmengine.dist import broadcast_object_list, get_dist_info
from mmengine.logging import print_log
from mmengine.registry import MODELS, DefaultScope
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader

from ..datasets.fitting import fitting_size
from ..datasets.selection import spread
from ..errors import UserError
from ..models.outputs import num_outputs
from ..trained.encoder import Encoder
from ..trained.loading import load_encoder
from .reduction import Reduction, find_reductions, limit_channels
from .whole_images import WholeImages

#: Batch size of a teacher. Larger ones are hardly faster on a CPU.
BATCH = 16
#: Strides of maps; those below 16 are of transformers, too.
STRIDES = (*range(1, 17), 32, 64)
#: Images whose maps give the principal components of the channels.
SAMPLE = 512


class Teacher:
    """A frozen encoder with its own input normalization and size.

    Not a submodule of the student, so neither trained nor saved.

    Args:
        path (str): File or URL of the encoder, see :func:`load_encoder`.
        out_indices (Sequence[int], optional): Its maps. Defaults to the last
            one.
        size (int | tuple[int, int], optional): Side, or height and width, of
            its input. Defaults to that of its training, or 224. Rounded to
            multiples of the coarsest stride, so that maps cover exactly the
            image.
        multi_scale (bool): Take the deepest map of each stride, from which
            :meth:`select` chooses, instead of ``out_indices``. Principal
            components take the place of channels until the maps of an image
            are no larger than the last one. Defaults to False.

    Attributes:
        path (str): As given.
        encoder (Encoder): The network.
        size (tuple[int, int]): Height and width of its input.
        shapes (list[torch.Size]): Shapes (C, h, w) of the maps of an image.
            :meth:`reduce` gives them their channels.
        strides (list[int]): Stride of each map.

    Raises:
        FileNotFoundError: If there is no such file.
        UserError: If it doesn't describe an encoder, or that returns no map.
    """

    def __init__(self, path: str,
                 out_indices: Sequence[int] | None = None,
                 size: int | tuple[int, int] | None = None,
                 multi_scale: bool = False) -> None:
        self.path = path
        self.multi_scale = multi_scale
        # Random weights are drawn first; the student's stay the same.
        with torch.random.fork_rng(devices=[]):
            self.encoder = load_encoder(path, out_indices=out_indices)
            if multi_scale:
                _return_all_maps(self.encoder)
        self.encoder.requires_grad_(False)
        self._reductions: list[Reduction | None] = []
        self._indices: list[int] | None = None
        self._is_reduced = False
        given = size or self.encoder.size or 224
        self._set_size(
            (given, given) if isinstance(given, int) else tuple(given))
        if not self._covers_images():
            self._set_size(fitting_size(self.size, max(self.strides)))
            print_log(f"teacher '{path}' takes {self.size[0]} x "
                      f'{self.size[1]} pixels, multiples of its stride',
                      'current')
        self._hash = self._fingerprint(out_indices)
        self._all = {}  # a stride's deepest map
        for index, stride in enumerate(self.strides):
            self._all[stride] = index, self.shapes[index]
        if multi_scale:
            self.select(self._all)

    def _set_size(self, size: tuple[int, int]) -> None:
        """Set the input size, and find the shapes and strides of the maps."""
        self.size = size
        if hasattr(self.encoder.backbone, 'set_input_size'):
            self.encoder.backbone.set_input_size(size)
        self.shapes = [maps.shape[1:]
                       for maps in self(torch.zeros(1, 3, *size))]
        if not self.shapes:
            raise UserError(f"'{self.path}' ({self.encoder.name}) returns no "
                            'map (B, C, H, W), and cannot be a teacher')
        self.strides = [2**round(math.log2(size[0] / shape[1]))
                        for shape in self.shapes]

    def _covers_images(self) -> bool:
        """Whether the maps cover exactly the input."""
        for _, *cells in self.shapes:
            for side, number in zip(self.size, cells):
                if number > 1 and side / number not in STRIDES:
                    return False
        return True

    @property
    def fingerprint(self) -> str:
        """Hash of its weights, settings and outputs."""
        if not self.multi_scale:
            return self._hash
        facts = f'{self._hash} {self._indices} {self.shapes}'
        return hashlib.sha1(facts.encode()).hexdigest()

    def select(self, strides: Iterable[int]) -> None:
        """Take the maps of some strides, the deepest of each.

        Raises:
            UserError: If there is no such map.
        """
        missing = {*strides}.difference(self._all)
        if missing:
            raise UserError(
                f"model.pairs: teacher '{self.path}' has maps of strides "
                f'{sorted(self._all)}, not {sorted(missing)}')
        self.strides = sorted(strides)
        self._indices, shapes = [], []
        for stride in self.strides:
            index, shape = self._all[stride]
            self._indices.append(index)
            shapes.append(shape)
        _, last = max(self._all.values())
        self.shapes = limit_channels(shapes, last.numel())
        self._is_reduced = self.shapes != shapes

    def reduce(self, dataset: BaseDataset, workers: int = 0) -> None:
        """Find the principal components that the shapes leave to the maps.

        The main process finds them in a sample of images, for all.
        """
        if not self._is_reduced:
            return
        reductions = [None]
        if get_dist_info()[0] == 0:
            rows = spread(range(len(dataset)), SAMPLE)
            maps = self.encode_images(dataset, rows, workers)
            reductions = [find_reductions(maps, self.shapes)]
        broadcast_object_list(reductions)
        self._reductions = reductions[0]

    @property
    def channels(self) -> int:
        """Channels of all maps."""
        return sum(shape[0] for shape in self.shapes)

    @torch.no_grad()
    def __call__(self, images: Tensor) -> list[Tensor]:
        """RGB images (B, 3, H, W), 0-255, to maps (B, C, h, w), float32."""
        images = images.to(self.encoder.normalize.mean)
        if images.shape[2:] != self.size:
            images = F.interpolate(images, self.size, mode='bicubic',
                                   antialias=True).clamp(0, 255)
        outs = self.encoder(self.encoder.normalize(images))
        maps = [out.float() for out in outs if out.ndim == 4]
        if self._indices is not None:
            maps = [maps[i] for i in self._indices]
        for i, reduction in enumerate(self._reductions):
            if reduction is not None:
                maps[i] = reduction(maps[i])
        return maps

    def encode_images(self, dataset: BaseDataset, rows: Sequence[int],
                      workers: int = 0) -> Iterator[list[Tensor]]:
        """Encode whole images of a data set.

        Yields:
            list[Tensor]: Maps of the next rows, (B, C, h, w), on the CPU.
        """
        images = WholeImages(dataset, rows, self.size)
        for batch in DataLoader(images, BATCH, num_workers=workers):
            yield [each.cpu() for each in self(batch)]

    def _fingerprint(self, out_indices: Sequence[int] | None) -> str:
        found = hashlib.sha1()
        facts = (self.encoder.settings, str(self.encoder.normalization),
                 self.size, out_indices)
        found.update(json.dumps(facts, sort_keys=True, default=str).encode())
        for name, tensor in self.encoder.backbone.state_dict().items():
            found.update(f'{name} {tensor.dtype} {tensor.shape}'.encode())
            found.update(tensor.contiguous().view(-1).view(torch.uint8).numpy())
        return found.hexdigest()


def _return_all_maps(encoder: Encoder) -> None:
    """Let an encoder return all maps that its file has the weights of."""
    number = num_outputs(encoder.backbone)
    if number is None:
        return
    with DefaultScope.overwrite_default_scope('mmengine'):
        backbone = MODELS.build(dict(encoder.settings,
                                     out_indices=tuple(range(number))))
    try:
        backbone.load_state_dict(encoder.backbone.state_dict())
    except RuntimeError:  # a ConvNeXt has a norm of its own for each output
        return
    backbone.eval()  # returns None for a ResNet
    encoder.backbone = backbone
