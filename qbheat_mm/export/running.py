# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Run an exported network, with a line for what it was not made for."""
import json
import os.path as osp
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from ..checkpoint_file import require_ordinary_file
from ..errors import UserError
from .graphs import IMAGES, SIZES
from .writing import FACTS, require_packages


class Exported:
    """A network from a file, ``.pt2`` or ``.onnx``.

    Where nothing but torch or ONNX Runtime is installed, the file is run
    without this class, as docs/export.md shows; this one checks its inputs.

    Args:
        path (str): The file.

    Attributes:
        facts (dict): What the file says about itself.

    Raises:
        FileNotFoundError: If there is no such file.
        UserError: If it was not written by tools/export.py.
    """

    def __init__(self, path: str) -> None:
        require_ordinary_file(path)
        ending = osp.splitext(path)[1]
        if ending not in _RUNNERS:
            raise UserError(f"'{path}' is no exported network: give a file "
                            f'that ends in {" or ".join(_RUNNERS)}')
        require_packages(ending[1:])
        self.path = path
        try:
            self._run, facts = _RUNNERS[ending](path)
            self.facts = json.loads(facts or '{}')
        # Foreign and damaged files break the libraries anywhere.
        except Exception as error:
            reason = ' '.join(str(error).split())[:150]
            raise UserError(f"'{path}' cannot be read: it is damaged or no "
                            f'{ending} file ({reason}); export it again'
                            ) from error
        if 'outputs' not in self.facts:
            raise UserError(f"'{path}' does not say what it computes: it was "
                            f'not written by tools/export.py ({FACTS})')

    def __call__(self, images: np.ndarray | Tensor,
                 image_sizes: np.ndarray | Tensor | None = None
                 ) -> dict[str, np.ndarray]:
        """Run the network.

        Args:
            images (np.ndarray | Tensor): (B, H, W, 3), RGB, uint8, where the
                preprocessing is inside; else normalised, (B, 3, H, W),
                float32.
            image_sizes (np.ndarray | Tensor, optional): Of detectors: height
                and width of each image in the batch, (B, 2). Defaults to
                None: nothing is padded.

        Returns:
            dict[str, np.ndarray]: The outputs by name.

        Raises:
            UserError: If the inputs are not such as the export was made for.
        """
        if isinstance(images, Tensor):
            images = images.detach().cpu()
        inputs = {IMAGES: np.ascontiguousarray(images)}
        height, width = self._check_images(inputs[IMAGES])
        if SIZES in self.facts['inputs']:
            if image_sizes is None:
                image_sizes = [[height, width]] * len(images)
            inputs[SIZES] = np.asarray(image_sizes, dtype=np.int64)
            self._check_sizes(inputs[SIZES], len(images), height, width)
        return self._run(inputs)

    def _check_images(self, images: np.ndarray) -> tuple[int, int]:
        """Compare images with what the export was made for."""
        pictures = self.facts['pictures']
        dtype = 'uint8' if pictures else 'float32'
        form = ('(B, H, W, 3)', 3) if pictures else ('(B, 3, H, W)', 1)
        if images.ndim != 4 or images.shape[form[1]] != 3 or str(
                images.dtype) != dtype:
            raise UserError(
                f'images of shape {tuple(images.shape)} and {images.dtype}: '
                f"'{self.path}' takes {form[0]}, {dtype}"
                + (', RGB' if pictures else ', normalised'))
        size = images.shape[1:3] if pictures else images.shape[2:]
        fixed, least = self.facts['size'], self.facts['least_side']
        if fixed and list(size) != fixed:
            raise UserError(
                f'images of {size[0]}x{size[1]} pixels: '
                f"'{self.path}' was exported for {fixed[0]}x{fixed[1]} alone; "
                'export it without --size for others')
        if min(size) < least:
            raise UserError(
                f"images of {size[0]}x{size[1]} pixels: '{self.path}' takes "
                f'{least} pixels and more on each side; pad or enlarge them')
        return size

    def _check_sizes(self, sizes: np.ndarray, number: int, height: int,
                     width: int) -> None:
        """Compare sizes of images with their batch."""
        if sizes.shape != (number, 2):
            raise UserError(f'image_sizes of shape {sizes.shape}: give height '
                            f'and width of each of the {number} images')
        if (sizes < 1).any() or (sizes > (height, width)).any():
            raise UserError(
                f'image_sizes {sizes.tolist()} do not lie within the batch of '
                f'{height}x{width} pixels')


_Run = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]


def _run_pt2(path: str) -> tuple[_Run, str]:
    """A function that runs a program of torch.export, and its facts."""
    texts = {FACTS: ''}
    program = torch.export.load(path, extra_files=texts).module()

    def run(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        with torch.no_grad():
            outputs = program(*map(torch.from_numpy, inputs.values()))
        return {name: output.numpy() for name, output in outputs.items()}

    return run, texts[FACTS]


def _run_onnx(path: str) -> tuple[_Run, str]:
    """A function that runs a file of ONNX, and its facts."""
    import onnxruntime
    session = onnxruntime.InferenceSession(
        path, providers=['CPUExecutionProvider'])
    names = [output.name for output in session.get_outputs()]

    def run(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(zip(names, session.run(names, dict(inputs))))

    return run, session.get_modelmeta().custom_metadata_map.get(FACTS, '')


_RUNNERS = {'.pt2': _run_pt2, '.onnx': _run_onnx}
