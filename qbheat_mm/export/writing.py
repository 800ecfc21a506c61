# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Graphs as files: torch.export and ONNX."""
import importlib.util
import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch.export import Dim, ExportedProgram

from ..errors import UserError
from .examples import example_inputs
from .graphs import IMAGES, Graph

#: The name of what a file says about itself, in both formats.
FACTS = 'qbheat_mm.json'
#: The ONNX operators that torch's exporter writes without converting.
OPSET = 18
#: Images in a batch, and pixels on a side: torch 2.6 asks for an end.
MOST = 1 << 16
_NEEDED = dict(onnx=('onnx', 'onnxscript', 'onnxruntime'))


def require_packages(kind: str) -> None:
    """Raise unless what a format needs is installed.

    Raises:
        UserError: Naming what is missing.
    """
    missing = [name for name in _NEEDED.get(kind, ())
               if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"--format {kind} needs {', '.join(missing)}: pip install "
            f"{' '.join(missing)}, or 'qbheat_mm[export]'")


def dynamic_shapes(graph: Graph, size: tuple[int, int] | None) -> dict:
    """Which sides of which input may differ, as torch.export wants it."""
    batch = Dim('batch', max=MOST)
    dims = {0: batch}
    if size is None:
        # Where the coarsest map had one position, torch would take its
        # side for a constant.
        least = graph.stride + 1
        first = 1 if graph.pictures else 2
        dims.update({first: Dim('height', min=least, max=MOST),
                     first + 1: Dim('width', min=least, max=MOST)})
    return {name: dims if name == IMAGES else {0: batch}
            for name in graph.inputs}


def _side_names(graph: Graph, size: tuple[int, int] | None) -> dict:
    """The same in names alone, as the exporter of ONNX wants them."""
    return {name: {place: dim.__name__ for place, dim in dims.items()}
            for name, dims in dynamic_shapes(graph, size).items()}


def trace(graph: Graph, size: tuple[int, int] | None) -> ExportedProgram:
    """Let torch.export trace a graph.

    Args:
        graph (Graph): The graph.
        size (tuple[int, int], optional): Height and width of all images;
            None for any from ``graph.stride + 1`` on.

    Raises:
        UserError: If the network cannot be traced, with the reason.
    """
    # No two sides alike: torch might take them for one.
    traced = size or (3 * graph.stride // 2 + 8, 2 * graph.stride + 7)
    example = tuple(example_inputs(graph, 2, traced).values())
    with torch.no_grad(), quiet():
        try:
            return torch.export.export(
                graph.module, example, strict=False,
                dynamic_shapes=dynamic_shapes(graph, size))
        # Tracing runs foreign code, and raises whatever that raises.
        except Exception as error:
            raise UserError(_refusal(graph, size, error)) from error


def write_pt2(graph: Graph, program: ExportedProgram, facts: Mapping,
              path: str) -> None:
    """Write a program of torch.export.

    Args:
        graph (Graph): What it was traced from.
        program (ExportedProgram): See :func:`trace`.
        facts (Mapping): What the file says about itself.
        path (str): The file, ``.pt2``.
    """
    with quiet():
        torch.export.save(
            program, path, extra_files={FACTS: json.dumps(facts)})


def write_onnx(graph: Graph, program: ExportedProgram, facts: Mapping,
               path: str) -> None:
    """Write one file of ONNX, weights and all, and check it.

    Args:
        graph (Graph): What it was traced from.
        program (ExportedProgram): See :func:`trace`.
        facts (Mapping): What the file says about itself.
        path (str): The file, ``.onnx``.

    Raises:
        UserError: If an operator cannot be written in ONNX, with the reason.
    """
    import onnx
    with quiet():
        try:
            written = torch.onnx.export(
                program, input_names=list(graph.inputs),
                output_names=list(graph.outputs), opset_version=OPSET,
                dynamic_shapes=_side_names(graph, facts['size']),
                dynamo=True, external_data=False, verbose=False)
        # As in `trace`. Around the operator that is missing, the exporter
        # puts pages of advice to its own developers.
        except Exception as error:
            raise UserError(_refusal(
                graph, facts['size'], _first_cause(error),
                'a program of torch (--format pt2)')) from error
        written.model.metadata_props[FACTS] = json.dumps(facts)
        written.save(path, external_data=False)
    onnx.checker.check_model(path, full_check=True)


#: By the endings of files.
WRITERS = dict(pt2=write_pt2, onnx=write_onnx)


def _first_cause(error: BaseException) -> BaseException:
    """What all later errors of a chain were raised from."""
    while error.__cause__:
        error = error.__cause__
    return error


def _refusal(graph: Graph, size: tuple[int, int] | None,
             error: BaseException, *ways: str) -> str:
    """One line for a network that cannot be exported, and what may go."""
    reason = ' '.join(str(error).split())[:300]
    ways = list(ways)
    if graph.kind != 'encoder':
        ways.append('its encoder alone (--part encoder)')
    if size is None:
        ways.append('a fixed size of the images (--size HEIGHT WIDTH)')
    ways = f'; what may go: {", or ".join(ways)}' if ways else ''
    return (f'this {graph.kind} cannot be exported: {type(error).__name__}: '
            f'{reason}{ways}')


@contextmanager
def quiet() -> Iterator[None]:
    """Keep to ourselves what torch's exporters say about their own parts."""
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
