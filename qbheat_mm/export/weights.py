# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Write an encoder's weights as safetensors or for other libraries."""
import json
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from ..errors import UserError
from ..trained.encoder import Encoder
from ..utils.atomic_write import atomic_write
from .facts import describe, require_other


def export_encoder(encoder: Encoder, out: str | os.PathLike) -> str:
    """Write an encoder as safetensors.

    The tensors have the names of the bare backbone, as ``stem.0.0.weight``.
    The metadata, listed in docs/export.md, say how to build the backbone and
    normalize its input.

    Args:
        encoder (Encoder): See :func:`qbheat_mm.apis.load_encoder`.
        out (str | PathLike): The file to write, ``.safetensors``.

    Returns:
        str: ``out``.

    Raises:
        UserError: If the encoder's settings are not plain values.
    """
    out = os.fspath(out)
    if not out.endswith('.safetensors'):
        raise UserError(f"'{out}' must end in .safetensors")
    require_other(encoder, out)
    facts = dict(describe(encoder), backbone=json.dumps(
        encoder.settings, default=_class_name))
    if encoder.size:
        facts['training_size'] = json.dumps(encoder.size)
    with atomic_write(out) as part:
        _save(encoder.backbone.state_dict(), facts, part)
    return out


def export_state_dict(encoder: Encoder, out: str | os.PathLike,
                      library: str) -> float:
    """Write an encoder's weights under the names of another library.

    First, that library's own network loads them strictly, and its features
    of an image are compared.

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
    from .libraries import convert
    out = os.fspath(out)
    require_other(encoder, out)
    state, difference = convert(encoder.backbone, library)
    with atomic_write(out) as part:
        if out.endswith('.safetensors'):
            _save(state, describe(encoder), part)
        else:
            torch.save(state, part)
    return difference


def _class_name(kind: object) -> str:
    """The full name of a class, which new-style configs contain."""
    if not isinstance(kind, type):
        raise UserError(f'model.backbone contains {kind!r}, which is not a '
                        'plain value and cannot be written')
    return f'{kind.__module__}.{kind.__qualname__}'


def _save(tensors: Mapping[str, Tensor], facts: Mapping[str, str],
          path: str) -> None:
    from safetensors.torch import save

    # Views that share memory would be refused.
    tensors = {name: tensor.detach().cpu().contiguous().clone()
               for name, tensor in tensors.items()}
    # save_file would let only the owner read the file.
    Path(path).write_bytes(save(tensors, {'format': 'pt', **facts}))
