# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The maps of a teacher in a file, which processes and runs share."""
import hashlib
import os
import shutil
import time
from collections.abc import Sequence

import numpy as np
import torch
from mmengine.dataset import BaseDataset
from mmengine.dist import barrier, broadcast_object_list, get_dist_info
from mmengine.logging import print_log
from torch import Tensor

from ..errors import UserError
from .teacher import Teacher

#: Seconds between two reports.
INTERVAL = 30


class MapFile:
    """The maps of all images of a data set in a file, in half precision.

    They are computed unless the folder has the file for this teacher and
    these images. Processes of a run share the work and the file, which other
    runs may use as well.

    Args:
        teacher (Teacher): The teacher.
        dataset (BaseDataset): The images.
        folder (str): Folder of the file.
        workers (int): Processes that load images. Defaults to 0.

    Raises:
        UserError: If the disk is too small, or a map exceeds half precision.
    """

    def __init__(self, teacher: Teacher, dataset: BaseDataset, folder: str,
                 workers: int = 0) -> None:
        self.teacher, self.dataset = teacher, dataset
        self.shapes = teacher.shapes
        self.shape = len(dataset), sum(
            shape.numel() for shape in self.shapes)
        path = os.path.join(folder, f'teacher-{self._fingerprint()}.npy')
        if not self._exists(path):
            self._write(path, workers)
        self.maps = np.load(path, mmap_mode='r')
        del self.teacher

    def __getitem__(self, rows: Sequence[int]) -> Tensor:
        """Return the maps of some images, flattened, (B, D), float16."""
        return torch.from_numpy(self.maps[rows])

    def split(self, flat: Tensor) -> list[Tensor]:
        """Invert the flattening: (B, D) to maps (B, C, h, w)."""
        sizes = [shape.numel() for shape in self.shapes]
        return [part.unflatten(1, shape) for part, shape
                in zip(flat.split(sizes, 1), self.shapes)]

    def _fingerprint(self) -> str:
        """Hash the weights, the shapes and the names of the images."""
        found = hashlib.sha1()
        found.update(self.teacher.fingerprint.encode())
        for row in range(len(self.dataset)):
            path = self.dataset.get_data_info(row)['img_path']
            found.update(f'{path}\n'.encode())
            if os.path.isfile(path):
                facts = os.stat(path)
                found.update(f'{facts.st_size} {facts.st_mtime_ns}'.encode())
        return found.hexdigest()[:12]

    @staticmethod
    def _exists(path: str) -> bool:
        """Whether the main process sees the file."""
        answer = [os.path.isfile(path)]
        broadcast_object_list(answer)
        return answer[0]

    def _write(self, path: str, workers: int) -> None:
        """Let each process encode its share of the images."""
        rank, processes = get_dist_info()
        folder = os.path.dirname(path)
        part = [f'{path}.{os.getpid()}']
        broadcast_object_list(part)
        if rank == 0:
            os.makedirs(folder, exist_ok=True)
            self._announce(path)
            np.lib.format.open_memmap(
                part[0], 'w+', np.float16, self.shape).flush()
        barrier()
        try:
            self._fill(np.load(part[0], mmap_mode='r+'), workers,
                       range(rank, len(self.dataset), processes))
            barrier()
            if rank == 0:
                os.replace(part[0], path)
        finally:
            if rank == 0 and os.path.exists(part[0]):
                os.remove(part[0])
        barrier()

    def _announce(self, path: str) -> None:
        """Log the size of the file; raise UserError if there is no room."""
        size = 2 * self.shape[0] * self.shape[1]
        free = shutil.disk_usage(os.path.dirname(path)).free
        facts = f'maps of {self.shape[0]} images need {size / 2**20:.0f} MiB'
        if size > free:
            raise UserError(
                f"teacher '{self.teacher.path}': {facts}, and '{path}' has "
                f'{free / 2**20:.0f}: set model.target_generator.folder to '
                'another disk, a smaller size, or online=True')
        print_log(f'{facts}; encoding them once into {path}', 'current')

    def _fill(self, maps: np.ndarray, workers: int,
              rows: Sequence[int]) -> None:
        start = reported = time.monotonic()
        done = 0
        for some, found in self.teacher.encode_images(
                self.dataset, rows, workers):
            values = torch.cat([each.flatten(1) for each in found], 1).half()
            if not values.isfinite().all():
                raise UserError(f"teacher '{self.teacher.path}': its features "
                                'exceed half precision: set '
                                'model.target_generator.online=True')
            maps[some] = values.numpy()
            done += len(some)
            now = time.monotonic()
            if now - reported > INTERVAL:
                reported = now
                left = (now - start) * (len(rows) / done - 1)
                print_log(f'{done} of {len(rows)} images encoded, '
                          f'{left / 60:.0f} minutes left', 'current')
        maps.flush()
