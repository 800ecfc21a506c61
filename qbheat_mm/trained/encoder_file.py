# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Write an encoder as safetensors."""
import json
import os
from pathlib import Path

from safetensors.torch import save

from ..errors import UserError
from ..utils.atomic_write import atomic_write
from .encoder import Encoder
from .origin import origin_of


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
    facts = origin_of(encoder)
    facts['format'] = 'pt'
    facts['backbone'] = json.dumps(encoder.settings, default=_class_name)
    if encoder.size:
        facts['training_size'] = json.dumps(encoder.size)
    tensors = {}
    for name, tensor in encoder.backbone.state_dict().items():
        # Views that share memory would be refused.
        tensors[name] = tensor.cpu().contiguous().clone()
    with atomic_write(out) as part:
        # save_file would let only the owner read the file.
        Path(part).write_bytes(save(tensors, facts))
    return out


def _class_name(kind: object) -> str:
    """The full name of a class, which new-style configs contain."""
    if not isinstance(kind, type):
        raise UserError(f'model.backbone contains {kind!r}, which is not a '
                        'plain value and cannot be written')
    return f'{kind.__module__}.{kind.__qualname__}'
