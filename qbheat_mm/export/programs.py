# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Export a trained network to torch.export or ONNX, and verify the file."""
import copy
import importlib.util
import itertools
import json
import os
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram

from ..errors import UserError, one_line
from ..trained.encoder import Encoder
from ..trained.heads import Heads
from ..trained.model import TrainedModel
from ..trained.origin import origin_of
from ..utils.atomic_write import atomic_write
from ..utils.modules import relative_difference
from .exported import FACTS, Exported
from .make_network import make_network
from .network import IMAGES, SIZES, Network, folded, inside

#: Largest accepted difference from PyTorch, relative to the largest value of
#: an output.
TOLERANCE = 1e-3
#: Batch sizes that are compared.
BATCHES = (1, 3)
#: Largest batch and side of an image: torch 2.6 requires a limit.
MAX_SIZE = 1 << 16


def export_network(model: Encoder | Heads | TrainedModel,
                   out: str | os.PathLike,
                   size: tuple[int, int] | None = None,
                   preprocessing: bool = False,
                   embedding: bool = False, padded: bool = True) -> dict:
    """Export a model, run the file, and compare it with PyTorch.

    Args:
        model (Encoder | Heads | TrainedModel): An encoder of
            :func:`qbheat_mm.apis.load_encoder`, several heads of
            :func:`qbheat_mm.apis.load_heads`, which become one network that
            runs their encoder once, or a classifier or detector of
            :func:`load_model`.
        out (str | PathLike): The file to write, ``.pt2`` or ``.onnx``.
        size (tuple[int, int], optional): Height and width of all images.
            Defaults to None: any.
        preprocessing (bool): Whether images are (B, H, W, 3), RGB, uint8,
            and normalized by the network. Defaults to False.
        embedding (bool): Whether heads return the embedding of
            :func:`qbheat_mm.apis.embed` as well. Defaults to False.
        padded (bool): Whether detectors take ``image_sizes``, the sizes of
            images within a padded batch; unpadded networks are faster.
            Defaults to True.

    Returns:
        dict: Metadata of the file (``kind``, ``inputs``, ``outputs``,
        ...), and ``difference``, the largest difference from
        PyTorch over the largest value of an output.

    Raises:
        UserError: If the model cannot be exported, or the file computes
            something else; then no file is left.
    """
    out = os.fspath(out)
    _require_format(out)  # before time is spent
    network = make_network(model, preprocessing, embedding, padded)
    program = _trace(network, size)
    facts = dict(
        kind=network.kind, inputs=network.inputs, outputs=network.outputs,
        pictures=network.normalize is not None, size=size,
        least_side=network.stride + 1, **_origin(model))
    with atomic_write(out) as part:
        if out.endswith('.onnx'):
            _write_onnx(network, program, part, facts, size)
        else:
            torch.export.save(
                program, part, extra_files={FACTS: json.dumps(facts)})
        difference = _verify(Exported(part), network, size)
    return dict(facts, difference=difference)


def _origin(model: Encoder | Heads | TrainedModel) -> dict:
    """Describe the sources and classes of a model, or of several heads."""
    if isinstance(model, Encoder):
        return dict(origin_of(model), classes=())
    if isinstance(model, TrainedModel):
        transforms = json.loads(json.dumps(model.transforms, default=str))
        divisor = getattr(model.model.data_preprocessor, 'pad_size_divisor', 1)
        return dict(origin_of(model), classes=model.classes,
                    transforms=transforms, pad_size_divisor=divisor)
    facts = dict(origin_of(model.encoder), heads={})
    for name, head in model.trained.items():
        facts['heads'][name] = _origin(head)
    return facts


def _require_format(out: str) -> None:
    """Raise UserError unless the format is known and its packages exist."""
    if not out.endswith(('.pt2', '.onnx')):
        raise UserError(f"'{out}' must end in .pt2 or .onnx")
    for name in ('onnx', 'onnxscript', 'onnxruntime'):
        if out.endswith('.onnx') and importlib.util.find_spec(name) is None:
            raise UserError(f'ONNX needs the package {name}: pip install '
                            'onnx onnxscript onnxruntime')


def _trace(network: Network,
           size: tuple[int, int] | None) -> ExportedProgram:
    """Trace a network with torch.export, with BN folded if possible."""
    stride = network.stride
    if size is not None and min(size) <= stride:
        raise UserError(f'--size {size[0]} {size[1]}: this {network.kind} '
                        f'needs more than {stride} pixels on each side')
    # Tracing its padding for any size takes hours.
    if size is None and any(type(part).__name__ == 'Conv2dSame'
                            for part in network.modules()):
        raise UserError(f'the padding of this {network.kind} depends on the '
                        'image size: give that of resized images, as in '
                        'training (--size HEIGHT WIDTH)')
    # Equal sides might be taken for one and the same.
    sides = size or (3 * stride // 2 + 8, 2 * stride + 7)
    example = tuple(_example_inputs(network, 2, sides).values())
    try:
        with torch.no_grad():
            traced = folded(network)
            difference, _ = largest_difference(
                traced(*example), network(*example))
            if difference > TOLERANCE:
                traced = copy.deepcopy(network).requires_grad_(False)
            return torch.export.export(
                traced, example, strict=False,
                dynamic_shapes=_dynamic_shapes(network, size))
    # Tracing runs foreign code.
    except Exception as error:
        raise _refusal(network, error) from error


def _write_onnx(network: Network, program: ExportedProgram, path: str,
                facts: Mapping, size: tuple[int, int] | None) -> None:
    import onnx

    from .onnx_graph import to_onnx  # needs onnxscript
    names: dict[str, dict[int, str]] = {}
    for name, dims in _dynamic_shapes(network, size).items():
        names[name] = {axis: dim.__name__ for axis, dim in dims.items()}
    try:
        written = to_onnx(
            program, input_names=list(network.inputs),
            output_names=list(network.outputs), dynamic_shapes=names)
    except Exception as error:
        while error.__cause__:  # wrapped in advice to torch's developers
            error = error.__cause__
        raise _refusal(network, error) from error
    written.model.metadata_props[FACTS] = json.dumps(facts)
    written.save(path, external_data=False)
    onnx.checker.check_model(path, full_check=True)


def _dynamic_shapes(network: Network, size: tuple[int, int] | None) -> dict:
    """The axes that may vary, as torch.export wants them."""
    batch = {0: Dim('batch', max=MAX_SIZE)}
    shapes = dict.fromkeys(network.inputs, batch)
    if size is None:
        # torch treats the side of a map with one position as a constant.
        first, least = 1 if network.normalize else 2, network.stride + 1
        shapes[IMAGES] = {
            **batch, first: Dim('height', min=least, max=MAX_SIZE),
            first + 1: Dim('width', min=least, max=MAX_SIZE)}
    return shapes


def _refusal(network: Network, error: Exception) -> UserError:
    return UserError(
        f'this {network.kind} cannot be exported: {type(error).__name__}: '
        f'{one_line(error)[:300]}; try one image size (--size '
        'HEIGHT WIDTH), the encoder alone (--part encoder) or --format pt2')


def _verify(exported: Exported, network: Network,
            size: tuple[int, int] | None) -> float:
    """Return the largest relative difference from the original model.

    Raises:
        UserError: If it exceeds :data:`TOLERANCE`.
    """
    stride, worst = network.stride, 0.
    sizes = [size] if size else [
        (stride + 1, stride + 14), (2 * stride + 33, 2 * stride + 62),
        (stride + 57, 3 * stride + 5)]
    for number, (height, width) in itertools.product(BATCHES, sizes):
        inputs = _example_inputs(network, number, (height, width))
        with torch.no_grad():
            expected = network(*inputs.values())
        difference, name = largest_difference(exported(**inputs), expected)
        if difference > TOLERANCE:
            raise UserError(
                f'the exported {network.kind} differs from PyTorch by '
                f'{difference:.1e} of the largest value in {name} for '
                f'{number} images of {height}x{width}, more than '
                f'{TOLERANCE:g}: nothing was written')
        worst = max(worst, difference)
    return worst


def largest_difference(found: Mapping, expected: Mapping[str, Tensor]
                       ) -> tuple[float, str]:
    """Relative difference and name of the worst output."""
    worst = (-1., '')
    for name, tensor in expected.items():
        difference = relative_difference(torch.as_tensor(found[name]), tensor)
        worst = max(worst, (difference, name))
    return worst


def _example_inputs(network: Network, number: int,
                    size: tuple[int, int]) -> dict[str, Tensor]:
    """Make a batch of random images, all but the first padded if possible."""
    generator = torch.Generator().manual_seed(number)
    if network.normalize:  # padding may hold anything
        images = torch.randint(0, 256, (number, *size, 3),
                               generator=generator, dtype=torch.uint8)
    else:
        images = torch.randn((number, 3, *size), generator=generator)
    if SIZES not in network.inputs:
        return {IMAGES: images}
    steps = torch.tensor([size[0] // 5, size[1] // 7])
    sizes = torch.tensor(size) - torch.arange(number)[:, None] * steps
    if not network.normalize:
        images = images * inside(images, sizes)
    return {IMAGES: images, SIZES: sizes}
