# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The maps of a teacher on disk, which processes and runs share."""
import hashlib
import os
import shutil
import sys
import time
import uuid
from bisect import bisect
from collections.abc import Sequence
from glob import escape, glob

import numpy as np
import torch
from mmengine.dataset import BaseDataset
from mmengine.dist import (
    all_gather_object,
    barrier,
    broadcast_object_list,
    get_dist_info,
)
from mmengine.logging import print_log
from torch import Tensor, nn

from ..errors import UserError
from ..trained.fit import few
from .teacher import Teacher
from .whole_images import WholeImages

#: Seconds between two reports.
INTERVAL = 30


class MapFolder:
    """The maps of all images of a data set, in half precision.

    They are computed unless ``folder`` already has a folder for this teacher
    and these images. Each process of a run encodes a block of images into a
    file of its own there; all processes, and other runs, read all of them.
    The folder appears when it is complete.

    Args:
        teacher (Teacher): The teacher.
        dataset (BaseDataset): The images.
        folder (str): Where the folder lies.
        workers (int): Processes that load images. Defaults to 0.

    Attributes:
        shapes (list[torch.Size]): Shapes (C, h, w) of the maps of an image.

    Raises:
        UserError: If the disk is too small or not shared by all processes, or
            a map exceeds half precision.
    """

    def __init__(self, teacher: Teacher, dataset: BaseDataset, folder: str,
                 workers: int = 0) -> None:
        self.shapes = teacher.shapes
        self.width = sum(shape.numel() for shape in self.shapes)
        images = WholeImages(dataset, range(len(dataset)), teacher.size)
        rank, _ = get_dist_info()
        # Others may see other times of the files.
        name = fingerprint(teacher, images) if rank == 0 else ''
        path = _of_main_process(os.path.join(os.path.expanduser(folder),
                                             f'teacher-{name}'))
        if _of_main_process(os.path.isdir(path)):
            _require_shared(path)
        else:
            self._write(teacher, images, path, workers)
        self.blocks = [np.load(file, mmap_mode='r') for file
                       in sorted(glob(f'{escape(path)}/*.npy'))]
        self.starts = np.cumsum([0, *map(len, self.blocks)])
        if self.starts[-1] != len(dataset):
            raise UserError(f"'{path}' is incomplete, by an interrupted copy "
                            'perhaps: delete it')

    def __getitem__(self, rows: Sequence[int]) -> Tensor:
        """Return the maps of some images, flattened, (B, D), float16."""
        maps = np.empty((len(rows), self.width), np.float16)
        for i, row in enumerate(rows):
            block = bisect(self.starts, row) - 1
            maps[i] = self.blocks[block][row - self.starts[block]]
        return torch.from_numpy(maps)

    def split(self, flat: Tensor) -> list[Tensor]:
        """Invert the flattening: (B, D) to maps (B, C, h, w)."""
        sizes = [shape.numel() for shape in self.shapes]
        return [part.unflatten(1, shape) for part, shape
                in zip(flat.split(sizes, 1), self.shapes)]

    def _write(self, teacher: Teacher, images: WholeImages, path: str,
               workers: int) -> None:
        """Let each process encode its block of images."""
        rank, processes = get_dist_info()
        # Processes of two containers may have the same id.
        part = _of_main_process(f'{path}.part-{uuid.uuid4().hex[:8]}')
        try:
            if rank == 0:
                os.makedirs(part)
                self._announce(teacher, images, part)
            barrier()
            _require_shared(part)
            teacher.reduce(images.dataset, workers)
            borders = [len(images) * i // processes for i in (rank, rank + 1)]
            self._encode(teacher, images, range(*borders), workers,
                         os.path.join(part, f'{rank:05}.npy'))
            barrier()
            if rank == 0:
                _rename(part, path)
        finally:
            if rank == 0:
                shutil.rmtree(part, ignore_errors=True)
        barrier()

    def _announce(self, teacher: Teacher, images: WholeImages,
                  part: str) -> None:
        """Log the size of the maps; raise UserError if there is no room."""
        folder = os.path.dirname(part)
        free = shutil.disk_usage(folder).free
        size = 2 * len(images) * self.width
        facts = f'maps of {len(images)} images need {size / 2**20:.0f} MiB'
        if size > free:
            raise UserError(
                f"teacher '{teacher.path}': {facts}, and '{folder}' has "
                f'{free / 2**20:.0f}: set model.target_generator.folder to '
                'another disk, a smaller size, or online=True')
        print_log(f'{facts}; encoding them once into {folder}', 'current')
        others = {*glob(f'{escape(folder)}/teacher-*')} - {part}
        if others:
            names = few(sorted(os.path.basename(other) for other in others))
            print_log(f'{folder} has maps of other teachers, images or '
                      f'interrupted runs: {names}; delete them unless a run '
                      'needs them', 'current')

    def _encode(self, teacher: Teacher, images: WholeImages, rows: range,
                workers: int, file: str) -> None:
        """Write the maps of some images to a file."""
        if not rows:
            return
        progress = Progress(len(rows))
        with open(file, 'wb') as out:
            np.lib.format.write_array_header_1_0(out, dict(
                descr='<f2', fortran_order=False,
                shape=(len(rows), self.width)))
            for maps in teacher.encode_images(images.dataset, rows, workers):
                flat = torch.cat([each.flatten(1) for each in maps], 1).half()
                if not flat.isfinite().all():
                    raise UserError(
                        f"teacher '{teacher.path}': its features exceed half "
                        'precision: set model.target_generator.online=True')
                out.write(flat.numpy().astype('<f2').tobytes())
                progress.add(len(flat))


class Progress:
    """Log how many of some images are encoded, and the time left."""

    def __init__(self, images: int) -> None:
        self.images = images
        self.done = 0
        self.start = self.reported = time.monotonic()

    def add(self, images: int) -> None:
        """Count encoded images."""
        self.done += images
        now = time.monotonic()
        if now - self.reported > INTERVAL:
            self.reported = now
            left = (now - self.start) * (self.images / self.done - 1)
            print_log(f'{self.done} of {self.images} images encoded, '
                      f'{left / 60:.0f} minutes left', 'current')


def fingerprint(teacher: Teacher, images: WholeImages) -> str:
    """Hash everything that determines the maps.

    These are the teacher, the images and how they are loaded, and the
    versions of the packages that compute them.
    """
    found = hashlib.sha1(teacher.fingerprint.encode())
    found.update(images.fingerprint().encode())
    found.update(str(versions_of(teacher.encoder)).encode())
    return found.hexdigest()[:12]


def versions_of(network: nn.Module) -> dict[str, str]:
    """Return the versions of the packages whose layers a network has."""
    packages = set()
    for module in network.modules():
        packages.add(type(module).__module__.split('.')[0])
    versions = {}
    for package in sorted(packages):
        versions[package] = getattr(sys.modules.get(package), '__version__',
                                    '')
    return versions


def _of_main_process(value):
    """Broadcast a value of the main process."""
    values = [value]
    broadcast_object_list(values)
    return values[0]


def _require_shared(path: str) -> None:
    """Raise UserError unless all processes see a folder."""
    if not all(all_gather_object(os.path.isdir(path))):
        raise UserError(
            f"'{os.path.dirname(path)}', for the maps of the teacher, is not "
            'shared by all machines: set model.target_generator.folder')


def _rename(part: str, path: str) -> None:
    """Move a complete folder to its place, unless another run was faster."""
    try:
        os.rename(part, path)
    except OSError:
        if not os.path.isdir(path):
            raise
