# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Export a trained network to torch.export or ONNX, and verify the file."""
import dataclasses
import os
from collections.abc import Mapping
from typing import NamedTuple

import torch
from mmengine.model import BaseModel
from mmpretrain.models import ImageClassifier
from torch import Tensor
from torch.export import ExportedProgram

from ..errors import UserError
from ..evaluation.encoder import Encoder
from ..models.layers.normalize import Normalization, Normalize
from ..utils.atomic_write import atomic_write
from .compare import TOLERANCE, largest_difference
from .files import Exported, format_of, trace, write_file
from .graphs import (
    IMAGES,
    SIZES,
    FromPictures,
    Graph,
    classifier_graph,
    encoder_graph,
)
from .source import Source

#: Images in the batches that are compared.
BATCHES = (1, 3)


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


@dataclasses.dataclass(frozen=True)
class Traced:
    """A network that can be written in every format.

    Attributes:
        graph (Graph): With the original.
        program (ExportedProgram): Of torch.export.
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


def export_network(network: Encoder | Source, out: str,
                   size: tuple[int, int] | None = None,
                   preprocessing: bool = False) -> ExportedFile:
    """Write a network, run the file, and compare it with PyTorch.

    Args:
        network (Encoder | Source): An encoder of ``apis.load_encoder``, or a
            classifier or detector of :func:`load_model`.
        out (str): The file, ``.pt2`` or ``.onnx``.
        size (tuple[int, int], optional): Height and width of all images.
            Defaults to None: any.
        preprocessing (bool): Whether images are (B, H, W, 3), RGB, uint8,
            and normalized inside. Defaults to False.

    Raises:
        UserError: If the network cannot be exported, or the file computes
            something else; then none is left.
    """
    format_of(os.fspath(out))  # before time is spent
    return write_network(trace_network(network, size, preprocessing), out)


def trace_network(network: Encoder | Source,
                  size: tuple[int, int] | None = None,
                  preprocessing: bool = False) -> Traced:
    """Trace a network once for both formats: see :func:`export_network`."""
    source = Source.of(network)
    graph = make_graph(source)
    if preprocessing:
        if source.normalization is None:
            raise UserError(
                f"'{source.checkpoint}' and its configuration do not say how "
                'images are normalized: set model.data_preprocessor, or leave '
                'out --with-preprocessing')
        graph = dataclasses.replace(
            graph, pictures=True,
            module=FromPictures(graph.module, source.normalization).eval())
    if size is not None and min(size) <= graph.stride:
        raise UserError(f'--size {size[0]} {size[1]}: this {graph.kind} needs '
                        f'more than {graph.stride} pixels on each side')
    # No two sides alike: torch might take them for one.
    traced = size or (3 * graph.stride // 2 + 8, 2 * graph.stride + 7)
    program = trace(graph, example_inputs(graph, 2, traced), size)
    return Traced(graph, program, source, size)


def make_graph(source: Source) -> Graph:
    """The function of tensors that a network is."""
    if not isinstance(source.model, BaseModel):
        return encoder_graph(source)
    if isinstance(source.model, ImageClassifier):
        return classifier_graph(source)
    from .detectors import detector_graph  # needs mmdet
    return detector_graph(source)


def write_network(traced: Traced, out: str) -> ExportedFile:
    """Write a traced network and verify it: see :func:`export_network`."""
    out = os.fspath(out)
    traced.source.require_other(out)
    facts = traced.facts()
    with atomic_write(out) as part:
        write_file(traced.graph, traced.program, facts, out, part)
        difference, compared = verify(Exported(part), traced)
    return ExportedFile(out, traced.graph.kind, facts, difference, compared)


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
    for number in BATCHES:
        for size in sizes:
            inputs = example_inputs(graph, number, size)
            with torch.no_grad():
                expected = graph.reference(
                    **_normalized(inputs, graph, traced.source.normalization))
            found = {name: torch.from_numpy(array)
                     for name, array in exported(**inputs).items()}
            difference, name = largest_difference(found, expected)
            compared.append(f'{number}x{size[0]}x{size[1]}')
            if not difference <= TOLERANCE:
                raise UserError(
                    f'the exported {graph.kind} differs from PyTorch by '
                    f'{difference:.1e} of the largest value in {name} at '
                    f'{compared[-1]} (images, height, width), more than '
                    f'{TOLERANCE:g}: nothing was written')
            worst = max(worst, difference)
    return worst, compared


def example_inputs(graph: Graph, number: int,
                   size: tuple[int, int]) -> dict[str, Tensor]:
    """Random images, of which all but the first are padded.

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
    if SIZES not in graph.inputs:
        return {IMAGES: images}
    sizes = torch.tensor([
        [size[0] - i * (size[0] // 5), size[1] - i * (size[1] // 7)]
        for i in range(number)])
    if not graph.pictures:
        images = _padded(images, sizes)
    return {IMAGES: images, SIZES: sizes}


def _normalized(inputs: Mapping[str, Tensor], graph: Graph,
                normalization: Normalization | None) -> dict[str, Tensor]:
    """Inputs for the original: pictures are normalized, then padded."""
    if not graph.pictures:
        return dict(inputs)
    images = Normalize(normalization)(inputs[IMAGES].permute(0, 3, 1, 2))
    if SIZES in inputs:
        images = _padded(images, inputs[SIZES])
    return {**inputs, IMAGES: images}


def _padded(images: Tensor, sizes: Tensor) -> Tensor:
    """Images (B, 3, H, W) with zeros outside of each image's size."""
    padded = torch.zeros_like(images)
    for image, out, (height, width) in zip(images, padded, sizes.tolist()):
        out[:, :height, :width] = image[:, :height, :width]
    return padded
