# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Frozen encoders whose features are targets."""
import hashlib
import json
from collections.abc import Iterator, Sequence

import torch
from mmengine.dataset import BaseDataset
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader

from ..errors import UserError
from ..trained.loading import load_encoder
from .whole_images import WholeImages

#: Batch size of a teacher. Larger ones are slower on a CPU, whose allocator
#: returns their memory after every layer.
BATCH = 8


class Teacher:
    """A frozen encoder with its own input normalization and size.

    Not a submodule of the student, so neither trained nor saved.

    Args:
        path (str): File or URL of the encoder, see :func:`load_encoder`.
        out_indices (Sequence[int], optional): Its maps. Defaults to the last
            one.
        size (int | tuple[int, int], optional): Side, or height and width, of
            its input. Defaults to that of its training, or 224.

    Attributes:
        path (str): As given.
        encoder (Encoder): The network.
        size (tuple[int, int]): Height and width of its input.
        shapes (list[torch.Size]): Shapes (C, h, w) of the maps of an image.
        fingerprint (str): Hash of its weights, settings and outputs.

    Raises:
        FileNotFoundError: If there is no such file.
        UserError: If it doesn't describe an encoder, or that returns no map.
    """

    def __init__(self, path: str,
                 out_indices: Sequence[int] | None = None,
                 size: int | tuple[int, int] | None = None) -> None:
        self.path = path
        # Random weights are drawn first; the student's stay the same.
        with torch.random.fork_rng(devices=[]):
            self.encoder = load_encoder(path, out_indices=out_indices)
        given = size or self.encoder.size or 224
        self.size = (given, given) if isinstance(given, int) else tuple(given)
        self.fingerprint = self._fingerprint(out_indices)
        if hasattr(self.encoder.backbone, 'set_input_size'):
            self.encoder.backbone.set_input_size(self.size)
        self.encoder.requires_grad_(False)
        self.shapes = [each.shape[1:]
                       for each in self(torch.zeros(1, 3, *self.size))]
        if not self.shapes:
            raise UserError(f"'{path}' ({self.encoder.name}) returns no map "
                            '(B, C, H, W), and cannot be a teacher')

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
        return [out.float() for out in outs if out.ndim == 4]

    def encode_images(self, dataset: BaseDataset, rows: Sequence[int],
                      workers: int = 0
                      ) -> Iterator[tuple[Sequence[int], list[Tensor]]]:
        """Encode whole images of a data set.

        Yields:
            tuple[Sequence[int], list[Tensor]]: Rows, and their maps,
            (B, C, h, w), on the CPU.
        """
        images = WholeImages(dataset, rows, self.size)
        start = 0
        for batch in DataLoader(images, BATCH, num_workers=workers):
            yield (rows[start:start + len(batch)],
                   [each.cpu() for each in self(batch)])
            start += len(batch)

    def _fingerprint(self, out_indices: Sequence[int] | None) -> str:
        found = hashlib.sha1()
        facts = (self.encoder.settings, str(self.encoder.normalization),
                 self.size, out_indices)
        found.update(json.dumps(facts, sort_keys=True, default=str).encode())
        for name, tensor in self.encoder.backbone.state_dict().items():
            found.update(f'{name} {tensor.dtype} {tensor.shape}'.encode())
            found.update(tensor.contiguous().view(-1).view(torch.uint8).numpy())
        return found.hexdigest()
