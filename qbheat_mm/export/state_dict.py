# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Plain weights that torchvision or timm load strictly."""
from typing import NamedTuple

import torch
from mmengine.config import Config

from ..safetensors_file import write_safetensors
from ..utils.atomic_write import atomic_write, require_other
from .library_models import compare_with_library
from .library_names import rename
from .source import read_encoder


class StateDict(NamedTuple):
    """What was written.

    Args:
        out (str): The file.
        tensors (int): Number of tensors in it.
        difference (float, optional): See :func:`compare_with_library`; None
            where the library is not installed.
    """
    out: str
    tensors: int
    difference: float | None


def export_state_dict(checkpoint: str,
                      out: str,
                      library: str,
                      cfg: Config | None = None) -> StateDict:
    """Write an encoder's weights under the names of another library.

    They are loaded strictly into the library's own network and the features
    of an image compared, where the library is installed.

    Args:
        checkpoint (str): Any checkpoint that holds an encoder, file or URL.
        out (str): The file to write: safetensors where the name ends so, a
            state dict of ``torch.save`` otherwise.
        library (str): ``'torchvision'`` or ``'timm'``.
        cfg (Config, optional): The configuration of the checkpoint.
            Defaults to None: the one inside it.

    Raises:
        FileNotFoundError: If there is no such checkpoint.
        UserError: If the library has no such network, or computes something
            else with these weights; see :func:`read_encoder`.
    """
    require_other(out, checkpoint)
    source = read_encoder(checkpoint, cfg)
    state = {name: tensor.detach().clone()
             for name, tensor in rename(source.model, library).items()}
    try:
        difference = compare_with_library(source.model, state, library)
    except ImportError:
        difference = None
    with atomic_write(out) as part:
        if out.endswith('.safetensors'):
            write_safetensors(part, state, {'format': 'pt', **source.facts()})
        else:
            torch.save(state, part)
    return StateDict(out, len(state), difference)
