# Copyright (c) QB-Heat MM authors. All rights reserved.
"""An encoder's weights: safetensors, and state dicts for other libraries."""
import json
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..errors import UserError
from ..evaluation.encoder import Encoder
from ..utils.atomic_write import atomic_write
from .libraries import convert
from .source import Source


def export_encoder(encoder: Encoder, out: str | os.PathLike) -> str:
    """Write an encoder as safetensors.

    The tensors have the names of the bare backbone, as ``stem.0.0.weight``.
    The metadata are texts: ``backbone`` (JSON, what it is built from),
    ``mean`` and ``std`` (JSON, in 0-255), ``channel_order`` (``'RGB'`` or
    ``'BGR'``), ``training_size`` (JSON, height and width of the images, if
    known), ``qbheat_mm`` (the version), ``source`` and ``source_sha256`` (of
    the checkpoint).

    Args:
        encoder (Encoder): See :func:`qbheat_mm.apis.load_encoder`.
        out (str | PathLike): The file to write, ``.safetensors``.

    Returns:
        str: ``out``.

    Raises:
        UserError: If the file cannot be written.
    """
    out = os.fspath(out)
    if not out.endswith('.safetensors') and not os.path.isdir(out):
        raise UserError(f"'{out}' must end in .safetensors")
    source = Source.of(encoder)
    source.require_other(out)
    try:
        facts = dict(backbone=json.dumps(_plain(encoder.settings)))
    except TypeError as error:
        raise UserError(
            f"the encoder of '{encoder.weights}' cannot be described: "
            f'model.backbone holds more than plain values ({error})'
        ) from error
    if encoder.size:
        facts['training_size'] = json.dumps(encoder.size)
    with atomic_write(out) as part:
        _save(encoder.backbone.state_dict(), {**facts, **source.facts()},
              part)
    return out


def export_state_dict(encoder: Encoder, out: str | os.PathLike,
                      library: str) -> float:
    """Write an encoder's weights under the names of another library.

    Before that, the library's own network loads them strictly and its
    features of an image are compared.

    Args:
        encoder (Encoder): See :func:`qbheat_mm.apis.load_encoder`.
        out (str | PathLike): The file to write: ``.safetensors``, or anything
            else for ``torch.save``.
        library (str): ``'torchvision'`` or ``'timm'``, installed.

    Returns:
        float: Largest difference of the features over their largest value.

    Raises:
        UserError: If the library has no such network.
    """
    out = os.fspath(out)
    source = Source.of(encoder)
    source.require_other(out)
    state, difference = convert(source.model, library)
    with atomic_write(out) as part:
        if out.endswith('.safetensors'):
            _save(state, source.facts(), part)
        else:
            torch.save({name: tensor.detach().clone()
                        for name, tensor in state.items()}, part)
    return difference


def _plain(settings: Any) -> Any:
    """Settings as dicts, lists and values; classes by their names."""
    if isinstance(settings, Mapping):
        return {name: _plain(value) for name, value in settings.items()}
    if isinstance(settings, list | tuple):
        return [_plain(value) for value in settings]
    if isinstance(settings, type):
        return f'{settings.__module__}.{settings.__qualname__}'
    return settings


def _save(tensors: Mapping[str, Tensor], facts: Mapping[str, str],
          path: str) -> None:
    from safetensors.torch import save

    # Two views of one tensor would be refused.
    tensors = {name: tensor.detach().cpu().contiguous().clone()
               for name, tensor in tensors.items()}
    with open(path, 'wb') as file:
        file.write(save(tensors, metadata={'format': 'pt', **facts}))
