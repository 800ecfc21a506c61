# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Run exported networks."""
import json
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from ..errors import UserError
from .network import IMAGES, SIZES

#: Metadata key in both formats.
FACTS = 'qbheat_mm.json'
_Run = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]


class Exported:
    """A network from a file, ``.pt2`` or ``.onnx``.

    torch or ONNX Runtime alone can run such a file, as docs/export.md shows;
    this class also checks the sizes of the inputs.

    Args:
        path (str): The file.

    Attributes:
        facts (dict): Metadata of the file: ``kind``, ``inputs``, ...

    Raises:
        UserError: If the file is missing or damaged.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        load = _load_onnx if path.endswith('.onnx') else _load_pt2
        try:
            self._run, facts = load(path)
            self.facts = json.loads(facts)
        # A damaged file can break the libraries anywhere.
        except Exception as error:
            raise UserError(f"'{path}' cannot be read, or was not written by "
                            f'tools/export.py: {error}') from error

    def __call__(self, images: np.ndarray | Tensor,
                 image_sizes: np.ndarray | Tensor | None = None
                 ) -> dict[str, np.ndarray]:
        """Run the network.

        Args:
            images (np.ndarray | Tensor): (B, H, W, 3), RGB, uint8, if the
                network normalizes; else normalized, (B, 3, H, W), float32.
            image_sizes (np.ndarray | Tensor, optional): For detectors:
                height and width of each image, (B, 2), within a padded
                batch. Defaults to the size of the batch.

        Returns:
            dict[str, np.ndarray]: The outputs by name.

        Raises:
            UserError: If the file was exported for other sizes, or without
                padding.
        """
        inputs = {IMAGES: np.ascontiguousarray(images)}
        number, *sides = inputs[IMAGES].shape
        size = sides[:2] if self.facts['pictures'] else sides[1:]
        fixed, least = self.facts['size'], self.facts['least_side']
        if size != (fixed or size) or min(size) < least:
            allowed = (f'{fixed[0]}x{fixed[1]}' if fixed else
                       f'at least {least} on each side')
            raise UserError(f"images of {size[0]}x{size[1]} pixels: "
                            f"'{self.path}' takes {allowed}")
        if SIZES not in self.facts['inputs'] and image_sizes is not None:
            raise UserError(f"'{self.path}' does not take image_sizes: "
                            'it was exported with --unpadded')
        if SIZES in self.facts['inputs']:
            inputs[SIZES] = np.asarray(
                [size] * number if image_sizes is None else image_sizes,
                np.int64)
        return self._run(inputs)


def _load_pt2(path: str) -> tuple[_Run, str]:
    """A function that runs the program, and its facts."""
    facts = {FACTS: ''}
    program = torch.export.load(path, extra_files=facts).module()

    def run(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        with torch.no_grad():
            outputs = program(*map(torch.from_numpy, inputs.values()))
        return {name: output.numpy() for name, output in outputs.items()}

    return run, facts[FACTS]


def _load_onnx(path: str) -> tuple[_Run, str]:
    """A function that runs the model, and its facts."""
    import onnxruntime
    session = onnxruntime.InferenceSession(
        path, providers=['CPUExecutionProvider'])
    names = [output.name for output in session.get_outputs()]

    def run(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(zip(names, session.run(names, dict(inputs))))

    return run, session.get_modelmeta().custom_metadata_map[FACTS]
