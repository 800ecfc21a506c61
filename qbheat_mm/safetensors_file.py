# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Files of safetensors: weights by name, with a few texts beside them.

What :mod:`qbheat_mm.export` writes about an encoder is read back here as the
configuration of a checkpoint that is read and never run, so that whoever asks
a checkpoint for its encoder and its pixels is answered by such a file, too.
"""
import json
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from .errors import UserError

#: Texts of an encoder's file; lists and dictionaries are JSON.
BACKBONE, MEAN, STD, ORDER = 'backbone', 'mean', 'std', 'channel_order'
SIZE = 'training_size'
_INSTALL = "it needs the package safetensors: pip install 'safetensors'"


def is_safetensors(path: str) -> bool:
    """Whether a file begins as one of safetensors, be it cut or damaged.

    It begins with the length of a header, in eight bytes, and the header,
    which is JSON.
    """
    try:
        with open(path, 'rb') as file:
            start = file.read(9)
    except OSError:
        return False
    return start[5:] == b'\0\0\0{'


def read_safetensors(path: str) -> dict:
    """Read a file as if it were a checkpoint of mmengine.

    Args:
        path (str): The file.

    Returns:
        dict: ``state_dict``, on the CPU, and ``meta``: the texts of the file
        and, of an encoder's, ``refused_cfg``. It has no ``cfg``, of which
        mmengine's inferencers would build a whole model.

    Raises:
        UserError: If the package safetensors is not installed.
        Exception: Of safetensors, if the file is damaged.
    """
    try:
        from safetensors import safe_open
    except ImportError as error:
        raise UserError(f"checkpoint '{path}' cannot be read: {_INSTALL}"
                        ) from error
    with safe_open(path, framework='pt', device='cpu') as file:
        texts = file.metadata() or {}
        names = file.keys()
        tensors = {name: file.get_tensor(name) for name in names}
    return dict(state_dict=tensors, meta={**texts, **_configuration(texts)})


def write_safetensors(path: str, tensors: Mapping[str, Tensor],
                      texts: Mapping[str, str]) -> None:
    """Write a file.

    Args:
        path (str): The file; its folder must be there.
        tensors (Mapping[str, Tensor]): Names and tensors, on any device.
        texts (Mapping[str, str]): Beside them.

    Raises:
        UserError: If the package safetensors is not installed.
        OSError: If the file cannot be written.
    """
    try:
        from safetensors.torch import save
    except ImportError as error:
        raise UserError(f"'{path}' cannot be written: {_INSTALL}") from error
    # A tensor that is a view of another would be written twice or refused.
    own = {name: tensor.detach().cpu().contiguous().clone()
           for name, tensor in tensors.items()}
    with open(path, 'wb') as file:
        file.write(save(own, metadata=dict(texts)))


def _configuration(texts: Mapping[str, str]) -> dict[str, str]:
    """The model that the texts describe, if they do."""
    backbone = _parsed(texts, BACKBONE)
    if not isinstance(backbone, dict):
        return {}
    model: dict[str, Any] = dict(backbone=backbone)
    if ORDER in texts:
        model['data_preprocessor'] = dict(
            mean=_parsed(texts, MEAN), std=_parsed(texts, STD),
            to_rgb=texts[ORDER] == 'RGB')
    text = f'model = {model!r}\n'
    if SIZE in texts:
        crop = dict(type='RandomResizedCrop', scale=_parsed(texts, SIZE))
        loader = dict(dataset=dict(pipeline=[crop]))
        text += f'train_dataloader = {loader!r}\n'
    return dict(refused_cfg=text)


def _parsed(texts: Mapping[str, str], name: str) -> Any:
    try:
        return json.loads(texts.get(name, 'null'))
    except (ValueError, RecursionError):
        return None
