# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read checkpoints without executing anything in them.

Weights are loaded with ``weights_only=True``, and the config stored in a
checkpoint is parsed, never run. Importing this module tells torch which
objects mmengine's checkpoints contain besides tensors.
"""
import ast
import json
import os
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from mmengine.logging import HistoryBuffer
from torch import Tensor, nn

from ..errors import UserError
from ..models.layers.normalize import Normalization

try:
    from numpy._core import multiarray
except ImportError:  # numpy 1
    from numpy.core import multiarray

# Old checkpoints lack BatchNorm's step counter, and nothing reads it.
_OPTIONAL = 'num_batches_tracked'


def read(path: str | os.PathLike, map_location: Any = 'cpu') -> dict:
    """Read a checkpoint.

    Args:
        path (str | PathLike): File, ``.safetensors`` file or http(s) URL.
        map_location (Any): See ``torch.load``. Defaults to 'cpu'.

    Returns:
        dict: The content; a safetensors file gives ``state_dict`` and its
        metadata as ``meta``.

    Raises:
        FileNotFoundError: If there is no such file.
        UserError: If it is damaged, not a checkpoint, or contains objects
            that could run code.
    """
    path = os.path.expanduser(os.fspath(path))
    is_url = path.startswith(('http://', 'https://'))
    if not is_url and not os.path.exists(path):
        raise FileNotFoundError(f"checkpoint '{path}' does not exist")
    if not is_url and not os.path.isfile(path):  # reading a pipe would block
        raise UserError(f"checkpoint '{path}' is not a file")
    try:
        if is_url:
            content = torch.hub.load_state_dict_from_url(
                path, map_location=map_location, weights_only=True)
        elif path.endswith('.safetensors'):
            content = _read_safetensors(path)
        else:
            _verify_checksums(path)
            # The maintained fork removes them whenever it loads a file.
            torch.serialization.add_safe_globals(_SAFE_GLOBALS)
            content = torch.load(
                path, map_location=map_location, weights_only=True)
    except (torch.cuda.OutOfMemoryError, ImportError):
        raise
    # A damaged file can break the unpickler anywhere.
    except Exception as error:
        raise UserError(_explain(path, error)) from error
    if not isinstance(content, dict):
        raise UserError(f"checkpoint '{path}' holds no state_dict")
    return content


def _read_safetensors(path: str) -> dict:
    from safetensors import safe_open
    with safe_open(path, framework='pt', device='cpu') as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return dict(state_dict=tensors, meta=file.metadata() or {})


def _verify_checksums(path: str) -> None:
    """Verify the checksums of a zip file, which torch ignores."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        if damaged:
            raise ValueError(f'wrong checksum of {damaged}')


def _explain(path: str, error: Exception) -> str:
    refused = re.search(r'GLOBAL (getattr\(.*?\)|\S+)', str(error))
    if refused:
        return (f"checkpoint '{path}' is refused: it contains "
                f'{refused[1]}, which could run code; save only its '
                'state_dict')
    reason = str(error).strip().split('\n')[0][:150]
    return (f"checkpoint '{path}' is damaged or not a checkpoint "
            f'({type(error).__name__}: {reason})')


def weights(content: Mapping) -> dict[str, Any]:
    """The named weights of a checkpoint, without a wrapper's ``module.``."""
    for key in ('state_dict', 'model'):
        if isinstance(content.get(key), Mapping):
            content = content[key]
    return {str(name).removeprefix('module.'): value
            for name, value in content.items()}


def encoder_weights(content: Mapping, names: Iterable[str]) -> dict[str, Any]:
    """Find an encoder's weights in a checkpoint.

    Args:
        content (Mapping): A checkpoint of pre-training, probing,
            classification or detection, or of the encoder alone.
        names (Iterable[str]): Tensor names of the encoder.

    Returns:
        dict[str, Any]: Values under the encoder's names; empty if none of
        them is found.
    """
    names, found = set(names), weights(content)
    prefix = _find_prefix(names, found)
    if prefix is None:
        return {}
    found = {name.removeprefix(prefix): value
             for name, value in found.items() if name.startswith(prefix)}
    if prefix:
        return found
    # Files of a bare encoder may include a classifier.
    children = {name.split('.')[0] for name in names}
    return {name: value for name, value in found.items()
            if name.split('.')[0] in children}


def _find_prefix(names: set[str], keys: Iterable[str]) -> str | None:
    """The prefix of most names.

    If a momentum encoder matches as well, the prefix that ends in
    ``backbone.`` wins, then the shortest.
    """
    votes: Counter = Counter()
    for key in keys:
        parts = key.split('.')
        for i in range(len(parts)):
            if '.'.join(parts[i:]) in names:
                votes['.'.join([*parts[:i], ''])] += 1
    return max(votes, default=None, key=lambda prefix: (
        votes[prefix], prefix.endswith('backbone.'), -len(prefix)))


def mismatch(needed: Mapping[str, Tensor], found: Mapping[str, Any]) -> str:
    """Describe why weights don't fit a network.

    Args:
        needed (Mapping[str, Tensor]): The network's tensors.
        found (Mapping[str, Any]): Values from a checkpoint.

    Returns:
        str: E.g. ``'2 tensors are missing (a, b)'``; empty if they fit.
    """
    missing = [name for name in needed
               if name not in found and not name.endswith(_OPTIONAL)]
    wrong = [f'{name}: {problem}' for name, tensor in needed.items()
             if name in found
             and (problem := _problem(name, found[name], tensor))]
    extra = [name for name, value in found.items()
             if name not in needed and isinstance(value, Tensor)]
    return ', '.join(
        f'{len(names)} tensors {what} ({few(names)})'
        for what, names in (('are missing', missing), ('do not fit', wrong),
                            ('are not part of it', extra)) if names)


def _problem(name: str, value: Any, needed: Tensor) -> str:
    if not isinstance(value, Tensor) or value.is_meta or (
            value.layout != torch.strided) or value.is_nested:
        return 'not a dense tensor'
    if value.is_floating_point() != needed.is_floating_point():
        return f'{value.dtype}, not {needed.dtype}'
    if value.shape != needed.shape:
        return f'shape {tuple(value.shape)}, not {tuple(needed.shape)}'
    if non_finite({name: value}):
        return 'NaN, infinite or a negative variance'
    return ''


def non_finite(tensors: Mapping[str, Any]) -> list[str]:
    """Names of tensors with NaN, infinite values or negative variances."""
    return [
        name for name, value in tensors.items()
        if isinstance(value, Tensor) and value.is_floating_point() and (
            not value.float().isfinite().all()
            or name.endswith('running_var') and (value < 0).any())]


def load_strict(module: nn.Module, content: Mapping, source: str) -> None:
    """Load all tensors of a model, or raise and leave it unchanged.

    Other tensors of the checkpoint are ignored.

    Args:
        module (nn.Module): The model.
        content (Mapping): The checkpoint, as read.
        source (str): Its name, for messages.

    Raises:
        UserError: If tensors are missing or don't fit, or if the model
            normalizes its input differently.
    """
    needed, found = module.state_dict(), weights(content)
    found = {name: found[name] for name in needed if name in found}
    require_match(needed, found, source, type(module).__name__, content)
    require_normalization(
        input_normalization(content),
        Normalization.of(getattr(module, 'data_preprocessor', None)), source)
    module.load_state_dict(found, strict=False)


def require_match(needed: Mapping[str, Tensor], found: Mapping[str, Any],
                  source: str, network: str, content: Mapping,
                  hint: str = '') -> None:
    """Raise UserError if weights don't fit a network."""
    problem = mismatch(needed, found)
    if problem:
        backbone = backbone_of(stored_config(content))
        origin = f' (trained with {backbone})' if backbone else ''
        raise UserError(f"checkpoint '{source}'{origin} does not fit "
                        f'{network}: {problem}{hint}')


def require_normalization(trained: Normalization | None,
                          given: Normalization | None, source: str) -> None:
    """Raise UserError if a model normalizes images unlike in training."""
    if trained and given and not trained.is_close(given):
        raise UserError(
            f"checkpoint '{source}' was trained with {trained}, but "
            f'model.data_preprocessor gives {given}: set mean, std and '
            'channel order (bgr_to_rgb in mmdet, to_rgb in mmpretrain) '
            'accordingly, or set allow_other_normalization=True of '
            'default_hooks.checkpoint_match or of init_cfg')


def few(names: Iterable[str], shown: int = 3) -> str:
    """Join the first few names."""
    names = list(names)
    return ', '.join(names[:shown]) + (', ...' if len(names) > shown else '')


def stored_config(content: Mapping) -> dict:
    """The config of the run that wrote a checkpoint, parsed but not run.

    Returns:
        dict: Its literal settings; empty if there are none.
    """
    meta = content.get('meta')
    if not isinstance(meta, Mapping):
        return {}
    try:
        if isinstance(meta.get('backbone'), str):
            return _config_of_export(meta)
        return {node.targets[0].id: _literal(node.value)
                for node in ast.parse(meta.get('cfg') or '').body
                if isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Name)}
    except (SyntaxError, ValueError, TypeError, RecursionError):
        return {}


def _literal(node: ast.AST) -> Any:
    """A literal or ``dict(...)``; None for any other expression."""
    if isinstance(node, ast.Call) and getattr(node.func, 'id', '') == 'dict':
        return {keyword.arg: _literal(keyword.value)
                for keyword in node.keywords}
    if isinstance(node, ast.Dict):
        return {_literal(key): _literal(value)
                for key, value in zip(node.keys, node.values) if key}
    if isinstance(node, ast.List):
        return [_literal(item) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_literal(item) for item in node.elts)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return None


def _config_of_export(meta: Mapping) -> dict:
    """The metadata of an exported encoder in the layout of a config."""
    mean, std, backbone, size = (
        json.loads(meta.get(name, 'null'))
        for name in ('mean', 'std', 'backbone', 'training_size'))
    model = dict(backbone=backbone)
    if meta.get('channel_order') in ('RGB', 'BGR'):
        model['data_preprocessor'] = dict(
            mean=mean, std=std, to_rgb=meta['channel_order'] == 'RGB')
    pipeline = [dict(type='RandomResizedCrop', scale=size)] if size else []
    return dict(model=model, train_dataloader=dict(
        dataset=dict(pipeline=pipeline)))


def find_settings(settings: Any, name: str) -> Iterator[dict]:
    """Dicts under a name, those of ``model`` first."""
    if not isinstance(settings, dict):
        return
    if isinstance(settings.get('model'), dict):
        yield from find_settings(settings['model'], name)
    if isinstance(settings.get(name), dict):
        yield settings[name]
    for value in settings.values():
        yield from find_settings(value, name)


def backbone_of(settings: Any) -> str:
    """Name the backbone of a config, e.g. ``"ResNet(depth=50)"``."""
    backbone = next(find_settings(settings, 'backbone'), None)
    if backbone is None:
        return ''
    known = ', '.join(f'{key}={backbone[key]!r}' for key in ('arch', 'depth')
                      if isinstance(backbone.get(key), str | int))
    return f"{backbone.get('type', '')}({known})"


def normalization_in(settings: Any) -> Normalization | None:
    """The input normalization of a config, None without a valid one."""
    given = next(find_settings(settings, 'data_preprocessor'), None)
    if given is None:
        return None
    try:
        mean, std = (tuple(map(float, given.get(name) or ()))
                     for name in ('mean', 'std'))
    except (TypeError, ValueError):
        return None
    if len(mean) != len(std) or not all(0 < value < inf for value in std):
        return None
    return Normalization(mean, std, any(
        given.get(key) is True for key in ('bgr_to_rgb', 'to_rgb')))


def input_normalization(content: Mapping) -> Normalization | None:
    """The input normalization that a checkpoint was trained with."""
    return normalization_in(stored_config(content))


def classes_in(content: Any) -> tuple[str, ...]:
    """The classes that a checkpoint was trained on; empty if unknown."""
    for name in ('meta', 'dataset_meta', 'classes'):
        content = content.get(name) if isinstance(content, Mapping) else None
    return tuple(map(str, content)) if isinstance(
        content, list | tuple) else ()


def _history_buffer_method(owner: type, name: str) -> Any:
    """Stand in for ``getattr`` in a checkpoint.

    HistoryBuffer pickles its statistics as ``getattr(HistoryBuffer, 'mean')``;
    nothing else is allowed.
    """
    method = vars(HistoryBuffer).get(name) if owner is HistoryBuffer else None
    if not callable(method) or name.startswith('_'):
        raise UnpicklingError(
            f'Unsupported global: GLOBAL getattr({owner!r}, {name!r})')
    return method


def _numpy_globals() -> list:
    """How numpy pickles numbers and arrays of them."""
    found = [np.ndarray, np.dtype]
    found += {type(np.dtype(code)) for code in '?bBhHiIlLqQefd'}
    # numpy 2 renamed the module; files keep the name of their writer's.
    for module in ('numpy.core.multiarray', 'numpy._core.multiarray'):
        found += [(multiarray.scalar, f'{module}.scalar'),
                  (multiarray._reconstruct, f'{module}._reconstruct')]
    return found


_SAFE_GLOBALS = [
    HistoryBuffer, (_history_buffer_method, 'builtins.getattr'),
    *_numpy_globals()]
torch.serialization.add_safe_globals(_SAFE_GLOBALS)
