# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A trained network as torch.export's program or as ONNX, checked."""
import copy
import dataclasses
import os
from collections.abc import Mapping
from typing import NamedTuple

import mmcv
import numpy as np
import torch
from mmengine.config import Config
from torch import Tensor
from torch.export import ExportedProgram

from ..arguments import (
    INT,
    PATH,
    POSITIVE_INT,
    Rule,
    one_of,
    optional,
    several,
)
from ..engine.origin import Pixels
from ..errors import UserError
from ..utils.atomic_write import atomic_write
from ..utils.settings import toolbox, type_name
from .comparing import TOLERANCE, largest_difference
from .examples import BATCHES, compared_sizes, example_inputs
from .graphs import (
    IMAGES,
    SIZES,
    FromPaddedPictures,
    FromPictures,
    Graph,
    classifier_graph,
    encoder_graph,
)
from .running import Exported
from .source import Source, read_encoder, read_model
from .writing import WRITERS, require_packages, trace

CONFIG = Rule('a configuration as Config.fromfile reads it',
              lambda value: isinstance(value, Config))


class ExportedFile(NamedTuple):
    """What was written.

    Args:
        out (str): The file.
        kind (str): What of, as ``'classifier'``.
        facts (dict): What the file says about itself.
        difference (float): Largest difference from PyTorch over the largest
            value of an output, on all sizes that were compared.
        compared (list[str]): These, as ``'3x97x94'``.
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


def trace_network(cfg: Config,
                  checkpoint: str,
                  part: str = 'model',
                  size: tuple[int, int] | None = None,
                  preprocessing: bool = False,
                  out_indices: tuple[int, ...] | None = None) -> Traced:
    """Trace a trained network as a function of tensors.

    Args:
        cfg (Config): Its configuration: pre-training (of which the encoder
            is exported), classification, MF-Dec, or a detector with anchors,
            as RetinaNet.
        checkpoint (str): Its checkpoint, file or URL.
        part (str): ``'model'``, or ``'encoder'`` for ``model.backbone``
            alone. Defaults to 'model'.
        size (tuple[int, int], optional): Height and width of all images.
            Defaults to None: any.
        preprocessing (bool): Whether images are (B, H, W, 3), RGB, uint8,
            and normalised inside. Defaults to False.
        out_indices (tuple[int, ...], optional): Outputs of the encoder.
            Defaults to None: features and tokens of a ``MobileFormer``, of
            others those of the configuration.

    Raises:
        FileNotFoundError: If there is no such checkpoint.
        UserError: If it does not fit, the network cannot be exported, or an
            argument is none.
    """
    for name, value, rule in (
            ('cfg', cfg, CONFIG), ('checkpoint', checkpoint, PATH),
            ('part', part, one_of('model', 'encoder')),
            ('size', size, optional(several(POSITIVE_INT, 2))),
            ('out_indices', out_indices, optional(several(INT)))):
        rule.check(name, value)
    checkpoint = os.fspath(checkpoint)
    graph, source = make_graph(cfg, checkpoint, part, out_indices)
    if preprocessing:
        graph = with_preprocessing(graph, source)
    if size is not None and min(size) <= graph.stride:
        raise UserError(f'--size {size[0]} {size[1]}: this {graph.kind} needs '
                        f'more than {graph.stride} pixels on each side')
    return Traced(graph, trace(graph, size), source, size)


def write_network(traced: Traced, out: str) -> ExportedFile:
    """Write a traced network, run the file, and compare it with PyTorch.

    Args:
        traced (Traced): The network.
        out (str): The file, ``.pt2`` or ``.onnx``.

    Raises:
        UserError: If the network cannot be written so; if the file computes
            something else, and then none is left.
    """
    kind = _format_of(out)
    facts = traced.facts()
    with atomic_write(out) as part:
        WRITERS[kind](traced.graph, traced.program, facts, part)
        difference, compared = compare(Exported(part), traced)
    return ExportedFile(out, traced.graph.kind, facts, difference, compared)


def export_network(cfg: Config, checkpoint: str, out: str,
                   **options) -> ExportedFile:
    """Export a network: :func:`trace_network`, then :func:`write_network`."""
    PATH.check('out', out)
    out = os.fspath(out)
    _format_of(out)  # before time is spent
    return write_network(trace_network(cfg, checkpoint, **options), out)


def _format_of(out: str) -> str:
    """The format that a file's name asks for.

    Raises:
        UserError: If there is none such, or what it needs is missing.
    """
    kind = out.rpartition('.')[2]
    if kind not in WRITERS:
        raise UserError(f"'{out}' must end in .{' or .'.join(WRITERS)}, the "
                        'formats of networks')
    require_packages(kind)
    return kind


def make_graph(cfg: Config, checkpoint: str, part: str,
               out_indices: tuple[int, ...] | None) -> tuple[Graph, Source]:
    """The network that a configuration asks for, with its weights.

    Raises:
        UserError: If there is no way to export it.
    """
    model = cfg.get('model') or {}
    if 'module' in model:  # as `--tta` tests it
        cfg = copy.deepcopy(cfg)
        model = cfg.model = model['module']
    detector = toolbox(cfg) == 'mmdet'
    if part == 'encoder' or (
            not detector and type_name(model) != 'ImageClassifier'):
        source = read_encoder(checkpoint, cfg, out_indices)
        return encoder_graph(source), source
    if out_indices is not None:
        raise UserError(f'--out-indices {" ".join(map(str, out_indices))} is '
                        'for encoders: add --part encoder')
    source = read_model(cfg, checkpoint)
    if not detector:
        return classifier_graph(source), source
    # Needs mmdet, which a detector's configuration has brought.
    from .detectors import detector_graph
    return detector_graph(source), source


def with_preprocessing(graph: Graph, source: Source) -> Graph:
    """A graph that takes pictures, (B, H, W, 3), RGB, uint8.

    Raises:
        UserError: If the pixels of the network are not known.
    """
    if source.pixels is None:
        raise UserError(
            f"checkpoint '{source.checkpoint}' and its configuration do not "
            'say with which pixels it was trained: set mean, std and channel '
            'order of model.data_preprocessor, or leave out '
            '--with-preprocessing')
    network = FromPaddedPictures if SIZES in graph.inputs else FromPictures
    return dataclasses.replace(
        graph, module=network(graph.module, source.pixels).eval(),
        pictures=True)


def compare(exported: Exported, traced: Traced) -> tuple[float, list[str]]:
    """Compare an exported network with the original.

    Returns:
        tuple[float, list[str]]: The largest difference, and the batches
        that were compared.

    Raises:
        UserError: If it is larger than :data:`TOLERANCE`.
    """
    graph, worst, compared = traced.graph, 0., []
    for number in BATCHES:
        for sides in compared_sizes(graph, traced.size):
            inputs = example_inputs(graph, number, sides, seed=number)
            with torch.no_grad():
                wanted = graph.reference(
                    **_normalized(inputs, graph, traced.source.pixels))
            found = {name: torch.from_numpy(array)
                     for name, array in exported(**inputs).items()}
            difference, name = largest_difference(found, wanted)
            compared.append(f'{number}x{sides[0]}x{sides[1]}')
            if not difference <= TOLERANCE:
                raise UserError(
                    f'the exported {graph.kind} differs from PyTorch by '
                    f'{difference:.1e} of the largest value in {name} at '
                    f'{compared[-1]} (images, height, width); more than '
                    f'{TOLERANCE:g} is refused and nothing was written')
            worst = max(worst, difference)
    return worst, compared


def _normalized(inputs: Mapping[str, Tensor], graph: Graph,
                pixels: Pixels | None) -> dict[str, Tensor]:
    """Inputs for the original: pictures are normalised by mmcv, then padded.

    Args:
        inputs (Mapping[str, Tensor]): Of the exported network.
        graph (Graph): Says whether they are pictures.
        pixels (Pixels, optional): Known if they are.
    """
    if not graph.pictures:
        return dict(inputs)
    images = inputs[IMAGES].numpy()
    sizes = inputs.get(SIZES, torch.tensor([images.shape[1:3]] * len(images)))
    batch = np.zeros(images.shape, np.float32)
    for image, padded, (height, width) in zip(images, batch, sizes.tolist()):
        padded[:height, :width] = mmcv.imnormalize(
            image[:height, :width, ::-1].astype(np.float32),  # to BGR
            np.array(pixels.mean or (0., ) * 3),
            np.array(pixels.std or (1., ) * 3), to_rgb=pixels.rgb)
    return {**inputs, IMAGES: torch.from_numpy(batch).permute(0, 3, 1, 2)}
