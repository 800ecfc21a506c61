# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Traced networks as files, and running these."""
import importlib.util
import json
import logging
import os.path as osp
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram

from ..errors import UserError
from .graphs import IMAGES, SIZES, Graph

#: The name of what a file says about itself, in both formats.
FACTS = 'qbheat_mm.json'
#: The ONNX operators that torch's exporter writes without converting.
OPSET = 18
#: Images in a batch, and pixels on a side: torch 2.6 asks for an end.
MOST = 1 << 16
FORMATS = ('pt2', 'onnx')


def format_of(out: str) -> str:
    """The format that a file's name asks for.

    Raises:
        UserError: If there is no such format, or a package is missing.
    """
    kind = osp.splitext(out)[1][1:]
    if kind not in FORMATS:
        raise UserError(f"'{out}' must end in .pt2 or .onnx")
    for name in ('onnx', 'onnxscript', 'onnxruntime'):
        if kind == 'onnx' and importlib.util.find_spec(name) is None:
            raise UserError(f'ONNX needs the package {name}: pip install '
                            "'qbheat_mm[export]'")
    return kind


def dynamic_shapes(graph: Graph, size: tuple[int, int] | None) -> dict:
    """Which sides of which input may differ, as torch.export wants it."""
    dims = {0: Dim('batch', max=MOST)}
    if size is not None:
        return dict.fromkeys(graph.inputs, dims)
    # torch takes the side of a map with one position for a constant.
    first, least = 1 if graph.pictures else 2, graph.stride + 1
    images = {**dims, first: Dim('height', min=least, max=MOST),
              first + 1: Dim('width', min=least, max=MOST)}
    return {name: images if name == IMAGES else dims
            for name in graph.inputs}


def trace(graph: Graph, example: Mapping[str, Tensor],
          size: tuple[int, int] | None) -> ExportedProgram:
    """Let torch.export trace a graph.

    Args:
        graph (Graph): The graph.
        example (Mapping[str, Tensor]): Inputs of at least two images.
        size (tuple[int, int], optional): Height and width of all images;
            None for any from ``graph.stride + 1`` on.

    Raises:
        UserError: If the network cannot be traced, with the reason.
    """
    with torch.no_grad(), quiet():
        try:
            return torch.export.export(
                graph.module, tuple(example.values()), strict=False,
                dynamic_shapes=dynamic_shapes(graph, size))
        # Tracing runs foreign code.
        except Exception as error:
            raise _refusal(graph, error, size) from error


def write_file(graph: Graph, program: ExportedProgram, facts: Mapping,
               out: str, part: str) -> None:
    """Write ``.pt2`` or ``.onnx``.

    Args:
        graph (Graph): What the program was traced from.
        program (ExportedProgram): See :func:`trace`.
        facts (Mapping): What the file says about itself.
        out (str): The file; names the format.
        part (str): Where to write it.

    Raises:
        UserError: If ONNX lacks an operator, with its name.
    """
    with quiet():
        if format_of(out) == 'onnx':
            _write_onnx(graph, program, facts, part)
        else:
            torch.export.save(
                program, part, extra_files={FACTS: json.dumps(facts)})


def _write_onnx(graph: Graph, program: ExportedProgram, facts: Mapping,
                path: str) -> None:
    import onnx
    sides = {name: {place: dim.__name__ for place, dim in dims.items()}
             for name, dims in dynamic_shapes(graph, facts['size']).items()}
    try:
        written = torch.onnx.export(
            program, input_names=list(graph.inputs),
            output_names=list(graph.outputs), opset_version=OPSET,
            dynamic_shapes=sides, dynamo=True, external_data=False,
            verbose=False)
    except Exception as error:
        while error.__cause__:  # advice to torch's developers is around it
            error = error.__cause__
        raise _refusal(graph, error, facts['size'],
                       'torch.export (--format pt2)') from error
    written.model.metadata_props[FACTS] = json.dumps(facts)
    written.save(path, external_data=False)
    onnx.checker.check_model(path, full_check=True)


def _refusal(graph: Graph, error: Exception, size: tuple[int, int] | None,
             *ways: str) -> UserError:
    """One line for a network that cannot be exported, and what may go."""
    if graph.kind != 'encoder':
        ways += ('the encoder alone (--part encoder)', )
    if size is None:
        ways += ('one image size (--size HEIGHT WIDTH)', )
    ways = f'; try {", or ".join(ways)}' if ways else ''
    return UserError(
        f'this {graph.kind} cannot be exported: {type(error).__name__}: '
        f'{" ".join(str(error).split())[:300]}{ways}')


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the exporters' warnings about their own parts to ourselves."""
    loggers = [logging.getLogger(name) for name in (
        'torch.onnx', 'torch.export', 'onnxscript', 'onnx_ir')]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        try:
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            yield
        finally:
            for logger, level in zip(loggers, levels):
                logger.setLevel(level)


class Exported:
    """A network from a file, ``.pt2`` or ``.onnx``.

    Only torch or ONNX Runtime is needed to run such a file, as
    docs/export.md shows; this class also checks the sizes of its inputs.

    Args:
        path (str): The file.

    Attributes:
        facts (dict): What the file says about itself.

    Raises:
        UserError: If the file is damaged.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        load = _load_onnx if format_of(path) == 'onnx' else _load_pt2
        if not osp.isfile(path):
            raise FileNotFoundError(f"'{path}' is no file")
        try:
            self._run, facts = load(path)
            self.facts = json.loads(facts)
        # The libraries fail anywhere in damaged files.
        except Exception as error:
            raise UserError(f"'{path}' cannot be read, or was not written by "
                            f'tools/export.py: {error}') from error

    def __call__(self, images: np.ndarray | Tensor,
                 image_sizes: np.ndarray | Tensor | None = None
                 ) -> dict[str, np.ndarray]:
        """Run the network.

        Args:
            images (np.ndarray | Tensor): (B, H, W, 3), RGB, uint8, if the
                normalization is inside; else normalized, (B, 3, H, W),
                float32.
            image_sizes (np.ndarray | Tensor, optional): Of detectors: height
                and width of each image in the batch, (B, 2). Defaults to
                None: nothing is padded.

        Returns:
            dict[str, np.ndarray]: The outputs by name.

        Raises:
            UserError: If sizes are not what the export was made for.
        """
        images = np.ascontiguousarray(torch.as_tensor(
            np.ascontiguousarray(images) if isinstance(images, np.ndarray)
            else images).detach().cpu())
        inputs = {IMAGES: images}
        first = 1 if self.facts['pictures'] else 2
        size = images.shape[first:first + 2]
        fixed, least = self.facts['size'], self.facts['least_side']
        if list(size) != (fixed or list(size)) or min(size) < least:
            allowed = (f'{fixed[0]}x{fixed[1]}' if fixed else
                       f'at least {least} on each side')
            raise UserError(f"images of {size[0]}x{size[1]} pixels: "
                            f"'{self.path}' takes {allowed}")
        if SIZES in self.facts['inputs']:
            sizes = np.asarray([size] * len(images) if image_sizes is None
                               else image_sizes, np.int64)
            if sizes.shape != (len(images), 2) or (sizes < 1).any() or (
                    sizes > size).any():
                raise UserError(
                    f'image_sizes {sizes.tolist()}: give height and width of '
                    f'each of {len(images)} images within {size[0]}x{size[1]}')
            inputs[SIZES] = sizes
        return self._run(inputs)


_Run = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]


def _load_pt2(path: str) -> tuple[_Run, str]:
    """A function that runs a program of torch.export, and its facts."""
    facts = {FACTS: ''}
    program = torch.export.load(path, extra_files=facts).module()

    def run(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        with torch.no_grad():
            outputs = program(*map(torch.from_numpy, inputs.values()))
        return {name: output.numpy() for name, output in outputs.items()}

    return run, facts[FACTS]


def _load_onnx(path: str) -> tuple[_Run, str]:
    """A function that runs a file of ONNX, and its facts."""
    import onnxruntime
    session = onnxruntime.InferenceSession(
        path, providers=['CPUExecutionProvider'])
    names = [output.name for output in session.get_outputs()]

    def run(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(zip(names, session.run(names, dict(inputs))))

    return run, session.get_modelmeta().custom_metadata_map[FACTS]
