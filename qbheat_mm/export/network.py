# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Export a trained network to torch.export or ONNX, and verify the file."""
import json
import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram

from ..errors import UserError
from ..evaluation.encoder import Encoder
from ..utils.atomic_write import atomic_write
from .exported import FACTS, Exported, format_of
from .graphs import IMAGES, SIZES, Graph, folded, inside, make_graph
from .source import Source

#: How far an exported network may be from the original, over the largest
#: value of an output.
TOLERANCE = 1e-3
#: Images in the batches that are compared.
BATCHES = (1, 3)
#: Images in a batch, and pixels on a side: torch 2.6 asks for an end.
MOST = 1 << 16
#: The ONNX operators that torch's exporter writes without converting.
OPSET = 18


class ExportedFile(NamedTuple):
    """A file that was written and verified.

    Args:
        out (str): The file.
        kind (str): As ``'classifier'``.
        facts (dict): What the file says about itself.
        difference (float): Largest difference from PyTorch over the largest
            value of an output.
        compared (list[str]): The batches compared, as ``'3x97x94'``.
    """
    out: str
    kind: str
    facts: dict
    difference: float
    compared: list[str]


@dataclass(frozen=True)
class Traced:
    """A network that can be written in every format.

    Attributes:
        graph (Graph): With the original.
        program (ExportedProgram): Of torch.export, with BN folded.
        source (Source): Where it comes from.
        size (tuple[int, int], optional): The only size of its images.
    """
    graph: Graph
    program: ExportedProgram
    source: Source
    size: tuple[int, int] | None

    def facts(self) -> dict:
        """What a file says about itself."""
        graph, source = self.graph, self.source
        return dict(
            kind=graph.kind, inputs=graph.inputs, outputs=graph.outputs,
            pictures=graph.pictures, size=self.size,
            least_side=graph.stride + 1, classes=source.classes,
            **source.facts())

    def write(self, out: str | os.PathLike) -> ExportedFile:
        """Write the network and verify it: see :func:`export_network`."""
        out = os.fspath(out)
        self.source.require_other(out)
        write = _write_onnx if format_of(out) == 'onnx' else _write_pt2
        facts = self.facts()
        with atomic_write(out) as part:
            with quiet():
                write(self, facts, part)
            difference, compared = verify(Exported(part), self)
        return ExportedFile(out, self.graph.kind, facts, difference, compared)


def export_network(network: Encoder | Source, out: str | os.PathLike,
                   size: tuple[int, int] | None = None,
                   preprocessing: bool = False) -> ExportedFile:
    """Write a network, run the file, and compare it with PyTorch.

    Args:
        network (Encoder | Source): An encoder of ``apis.load_encoder``, or a
            classifier or detector of :func:`load_model`.
        out (str | PathLike): The file, ``.pt2`` or ``.onnx``.
        size (tuple[int, int], optional): Height and width of all images.
            Defaults to None: any.
        preprocessing (bool): Whether images are (B, H, W, 3), RGB, uint8,
            and normalized inside. Defaults to False.

    Raises:
        UserError: If the network cannot be exported, or the file computes
            something else; then none is left.
    """
    format_of(os.fspath(out))  # before time is spent
    return trace_network(network, size, preprocessing).write(out)


def trace_network(network: Encoder | Source,
                  size: tuple[int, int] | None = None,
                  preprocessing: bool = False) -> Traced:
    """Trace a network once for both formats: see :func:`export_network`."""
    source = Source.of(network)
    graph = make_graph(source, preprocessing)
    if size is not None and min(size) <= graph.stride:
        raise UserError(f'--size {size[0]} {size[1]}: this {graph.kind} needs '
                        f'more than {graph.stride} pixels on each side')
    # No two sides alike: torch might take them for one.
    sides = size or (3 * graph.stride // 2 + 8, 2 * graph.stride + 7)
    example = tuple(example_inputs(graph, 2, sides).values())
    with torch.no_grad(), quiet():
        try:
            program = torch.export.export(
                folded(graph.module), example, strict=False,
                dynamic_shapes=dynamic_shapes(graph, size))
        # Tracing runs foreign code.
        except Exception as error:
            raise _refusal(graph, error) from error
    return Traced(graph, program, source, size)


def dynamic_shapes(graph: Graph, size: tuple[int, int] | None) -> dict:
    """Which sides of which input may differ, as torch.export wants it."""
    batch = {0: Dim('batch', max=MOST)}
    shapes = dict.fromkeys(graph.inputs, batch)
    if size is None:
        # torch takes the side of a map with one position for a constant.
        first, least = 1 if graph.pictures else 2, graph.stride + 1
        shapes[IMAGES] = {
            **batch, first: Dim('height', min=least, max=MOST),
            first + 1: Dim('width', min=least, max=MOST)}
    return shapes


def _write_pt2(traced: Traced, facts: Mapping, path: str) -> None:
    torch.export.save(
        traced.program, path, extra_files={FACTS: json.dumps(facts)})


def _write_onnx(traced: Traced, facts: Mapping, path: str) -> None:
    import onnx
    graph, shapes = traced.graph, dynamic_shapes(traced.graph, traced.size)
    sides = {name: {place: dim.__name__ for place, dim in dims.items()}
             for name, dims in shapes.items()}
    try:
        written = torch.onnx.export(
            traced.program, input_names=list(graph.inputs),
            output_names=list(graph.outputs), opset_version=OPSET,
            dynamic_shapes=sides, dynamo=True, external_data=False,
            verbose=False)
    except Exception as error:
        while error.__cause__:  # advice to torch's developers is around it
            error = error.__cause__
        raise _refusal(graph, error) from error
    written.model.metadata_props[FACTS] = json.dumps(facts)
    written.save(path, external_data=False)
    onnx.checker.check_model(path, full_check=True)


def _refusal(graph: Graph, error: Exception) -> UserError:
    """One line for a network that cannot be exported, and ways out."""
    return UserError(
        f'this {graph.kind} cannot be exported: {type(error).__name__}: '
        f'{" ".join(str(error).split())[:300]}; try one image size (--size '
        'HEIGHT WIDTH), the encoder alone (--part encoder) or --format pt2')


@contextmanager
def quiet() -> Iterator[None]:
    """Hide the exporters' warnings about their own parts."""
    before = logging.root.manager.disable
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(before)


def verify(exported: Exported, traced: Traced) -> tuple[float, list[str]]:
    """Compare an exported network with the original.

    Returns:
        tuple[float, list[str]]: The largest difference, and the batches
        that were compared.

    Raises:
        UserError: If it is larger than :data:`TOLERANCE`.
    """
    graph, worst, compared = traced.graph, 0., []
    stride = graph.stride
    sizes = [traced.size] if traced.size else [
        (stride + 1, stride + 14), (2 * stride + 33, 2 * stride + 62),
        (stride + 57, 3 * stride + 5)]
    for number, size in ((n, size) for n in BATCHES for size in sizes):
        inputs = example_inputs(graph, number, size)
        with torch.no_grad():
            expected = graph.module(*inputs.values())
        difference, name = largest_difference(exported(**inputs), expected)
        compared.append(f'{number}x{size[0]}x{size[1]}')
        if not difference <= TOLERANCE:
            raise UserError(
                f'the exported {graph.kind} differs from PyTorch by '
                f'{difference:.1e} of the largest value in {name} at '
                f'{compared[-1]} (images, height, width), more than '
                f'{TOLERANCE:g}: nothing was written')
        worst = max(worst, difference)
    return worst, compared


def largest_difference(found: Mapping, expected: Mapping[str, Tensor]
                       ) -> tuple[float, str]:
    """Difference and name of the worst output; NaN is the worst."""
    differences = {
        name: relative_difference(torch.as_tensor(found[name]), tensor)
        for name, tensor in expected.items()}
    worst = max(differences, key=lambda name: (
        differences[name] != differences[name], differences[name]))
    return differences[worst], worst


def relative_difference(found: Tensor, expected: Tensor) -> float:
    """Largest difference of two tensors over the largest expected value.

    Returns:
        float: inf if the shapes differ, NaN if a value is NaN.
    """
    if found.shape != expected.shape:
        return float('inf')
    found, expected = found.double(), expected.double()
    largest = expected.abs().max().clamp(min=1e-12)
    return ((found - expected).abs().max() / largest).item()


def example_inputs(graph: Graph, number: int,
                   size: tuple[int, int]) -> dict[str, Tensor]:
    """Random images, of which all but the first are padded if they may be.

    Args:
        graph (Graph): Says which inputs there are.
        number (int): Of images.
        size (tuple[int, int]): Height and width of the batch.

    Returns:
        dict[str, Tensor]: Name and tensor, in the order of the inputs.
    """
    generator = torch.Generator().manual_seed(number)
    if graph.pictures:  # whose padding may hold anything
        images = torch.randint(0, 256, (number, *size, 3),
                               generator=generator, dtype=torch.uint8)
    else:
        images = torch.randn((number, 3, *size), generator=generator)
    if not graph.padded:
        return {IMAGES: images}
    sizes = torch.tensor([
        [size[0] - i * (size[0] // 5), size[1] - i * (size[1] // 7)]
        for i in range(number)])
    if not graph.pictures:
        images = images * inside(images, sizes)
    return {IMAGES: images, SIZES: sizes}
