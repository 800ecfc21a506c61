# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read checkpoints without executing anything in them.

Weights are loaded with ``weights_only=True``, and the config stored in a
checkpoint is parsed, never run. Importing this module tells torch which
objects mmengine's checkpoints contain beyond tensors.
"""
import ast
import json
import os
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
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

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
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
    is_url = re.match('https?://', path) is not None
    if not is_url and not os.path.exists(path):
        raise FileNotFoundError(f"checkpoint '{path}' does not exist")
    if not is_url and not os.path.isfile(path):
        raise UserError(f"checkpoint '{path}' is not a file: give a file in "
                        'it, e.g. epoch_100.pth')
    try:
        if is_url:
            content = torch.hub.load_state_dict_from_url(
                path, map_location=map_location, weights_only=True)
        elif path.endswith('.safetensors'):
            content = _read_safetensors(path)
        else:
            _verify_checksums(path)
            content = torch.load(
                path, map_location=map_location, weights_only=True)
    except (torch.cuda.OutOfMemoryError, ImportError):
        raise
    # A damaged file can break the unpickler anywhere.
    except Exception as error:
        raise UserError(_explain(path, error)) from error
    state = content.get('state_dict', content) if isinstance(
        content, dict) else content
    if not isinstance(state, dict) or not all(
            isinstance(name, str) for name in state):
        raise UserError(f"checkpoint '{path}' holds no state_dict")
    return content


def _read_safetensors(path: str) -> dict:
    from safetensors import safe_open
    with safe_open(path, framework='pt', device='cpu') as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return dict(state_dict=tensors, meta=file.metadata() or {})


def _verify_checksums(path: str) -> None:
    """Compare the checksums of a zip file, which torch does not verify."""
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            # torch can be told to write none.
            if info.CRC and not info.compress_type:
                with archive.open(info) as file:
                    while file.read(1 << 20):
                        pass


def _explain(path: str, error: Exception) -> str:
    refused = re.search(r'GLOBAL (getattr\(.*?\)|\S+)', str(error))
    if refused:
        return (f"checkpoint '{path}' is refused: it contains "
                f'{refused[1]}, which could run code; save its state_dict '
                'alone')
    reason = str(error).strip().split('\n')[0][:150]
    return (f"checkpoint '{path}' is damaged or not a checkpoint "
            f'({type(error).__name__}: {reason})')


def weights(content: Any) -> dict[str, Any]:
    """The named weights of a checkpoint, without a wrapper's ``module.``."""
    for key in ('state_dict', 'model'):
        if isinstance(content, Mapping) and isinstance(
                content.get(key), Mapping):
            content = content[key]
    if not isinstance(content, Mapping):
        return {}
    return {name.removeprefix('module.'): value
            for name, value in content.items() if isinstance(name, str)}


def encoder_weights(content: Any, names: Iterable[str]) -> dict[str, Any]:
    """Find an encoder's weights in a checkpoint.

    Args:
        content (Any): A checkpoint of pre-training, probing, classification
            or detection, or of the encoder alone.
        names (Iterable[str]): Tensor names of the encoder.

    Returns:
        dict[str, Any]: Values under the encoder's names; empty if there is
        none of them.
    """
    names, found = set(names), weights(content)
    prefix = _find_prefix(names, found)
    if prefix is None:
        return {}
    found = {name.removeprefix(prefix): value
             for name, value in found.items() if name.startswith(prefix)}
    if prefix:
        return found
    # A classifier may lie beside a bare encoder.
    children = {name.split('.')[0] for name in names}
    return {name: value for name, value in found.items()
            if name.split('.')[0] in children}


def _find_prefix(names: set[str], keys: Iterable[str]) -> str | None:
    """The prefix of most names.

    Of equally frequent ones (a momentum encoder beside the encoder), one
    that ends in ``backbone.`` wins, then the shortest.
    """
    votes: Counter = Counter()
    for key in keys:
        parts = key.split('.')
        for i in range(len(parts)):
            if '.'.join(parts[i:]) in names:
                votes['.'.join([*parts[:i], ''])] += 1
    return max(votes, default=None, key=lambda prefix: (
        votes[prefix], prefix.endswith('backbone.'), -len(prefix)))


def mismatch(needed: Mapping[str, Tensor], found: Mapping[str, Any],
             allow: tuple[str, ...] = ()) -> str:
    """Describe why weights do not fit a network.

    Args:
        needed (Mapping[str, Tensor]): The network's tensors.
        found (Mapping[str, Any]): The file's values.
        allow (tuple[str, ...]): Prefixes of names that may be missing or of
            another shape. Defaults to ().

    Returns:
        str: E.g. ``'2 tensors are missing (a, b)'``; empty if they fit.
    """
    missing = [name for name in needed
               if name not in found and not name.endswith(_OPTIONAL)
               and not name.startswith(allow)]
    wrong = []
    for name, tensor in needed.items():
        problem = name in found and _problem(name, found[name], tensor)
        if problem and not (name.startswith(allow)
                            and problem.startswith('shape')):
            wrong.append(f'{name}: {problem}')
    extra = [name for name, value in found.items()
             if name not in needed and isinstance(value, Tensor)]
    return ', '.join(
        f'{len(names)} tensors {what} ({few(names)})'
        for what, names in (('are missing', missing), ('do not fit', wrong),
                            ('are not part of it', extra)) if names)


def _problem(name: str, value: Any, needed: Tensor) -> str:
    """How a value differs in kind or shape from the tensor needed."""
    if not isinstance(value, Tensor) or value.is_meta or (
            value.layout != torch.strided) or value.is_nested:
        return 'not a dense tensor'
    if value.dtype != needed.dtype and not any(
            {value.dtype, needed.dtype} <= set(kind)
            for kind in (_FLOATS, _INTEGERS)):
        return f'{value.dtype}, not {needed.dtype}'
    if value.shape != needed.shape:
        return f'shape {tuple(value.shape)}, not {tuple(needed.shape)}'
    if not _is_possible(name, value):
        return 'NaN, infinite or a negative variance'
    return ''


def _is_possible(name: str, value: Tensor) -> bool:
    value = value.float()
    return bool(value.isfinite().all()) and not (
        name.endswith('running_var') and bool((value < 0).any()))


def impossible(tensors: Mapping[str, Any]) -> list[str]:
    """Names of tensors with NaN, infinite values or negative variances."""
    return [name for name, value in tensors.items()
            if isinstance(value, Tensor) and value.dtype in _FLOATS
            and value.layout == torch.strided and not value.is_meta
            and not _is_possible(name, value)]


def load_strict(module: nn.Module, content: Any, source: str,
                allow: tuple[str, ...] = ()) -> None:
    """Load all tensors of a model, or raise and leave it alone.

    Other tensors of the checkpoint are ignored.

    Args:
        module (nn.Module): The model.
        content (Any): The checkpoint, as read.
        source (str): Its name, for messages.
        allow (tuple[str, ...]): See :func:`mismatch`.

    Raises:
        UserError: If tensors are missing or do not fit, or if the model
            normalizes its input differently.
    """
    needed = module.state_dict()
    found = weights(content)
    found = {name: found[name] for name in needed if name in found}
    require_match(needed, found, source, type(module).__name__, content,
                  allow)
    require_normalization(
        input_normalization(content),
        Normalization.of(getattr(module, 'data_preprocessor', None)), source)
    module.load_state_dict(
        {name: value for name, value in found.items()
         if value.shape == needed[name].shape}, strict=False)


def require_match(needed: Mapping[str, Tensor], found: Mapping[str, Any],
                  source: str, network: str, content: Any,
                  allow: tuple[str, ...] = ()) -> None:
    """Raise UserError if weights do not fit a network."""
    problem = mismatch(needed, found, allow)
    if problem:
        backbone = backbone_of(stored_config(content))
        origin = f' (trained with {backbone})' if backbone else ''
        raise UserError(f"checkpoint '{source}'{origin} does not fit "
                        f'{network}: {problem}')


def require_normalization(trained: Normalization | None,
                          given: Normalization | None, source: str) -> None:
    """Raise UserError if a model gets other inputs than it was trained on."""
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


def stored_config(content: Any) -> dict:
    """The config of the run that wrote a checkpoint, parsed and not run.

    Returns:
        dict: Literal settings; empty if there are none.
    """
    meta = content.get('meta') if isinstance(content, Mapping) else None
    if not isinstance(meta, Mapping):
        return {}
    if isinstance(meta.get('backbone'), str):  # metadata of safetensors
        return _config_of_encoder_file(meta)
    settings = {}
    try:
        for node in ast.parse(meta.get('cfg') or '').body:
            if isinstance(node, ast.Assign) and isinstance(
                    node.targets[0], ast.Name):
                settings[node.targets[0].id] = _literal(node.value)
    except (SyntaxError, ValueError, TypeError, RecursionError):
        return {}
    return settings


def _literal(node: ast.AST) -> Any:
    """A literal or ``dict(...)``; None for any other expression."""
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id != 'dict':
            return None
        first = _literal(node.args[0]) if node.args else {}
        return {**(first or {}), **{keyword.arg: _literal(keyword.value)
                                    for keyword in node.keywords}}
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


def _config_of_encoder_file(meta: Mapping) -> dict:
    """The metadata of an exported encoder in the layout of a config."""
    def value(name: str) -> Any:
        try:
            return json.loads(meta.get(name, 'null'))
        except ValueError:
            return None

    model = dict(backbone=value('backbone'))
    if 'channel_order' in meta:
        model['data_preprocessor'] = dict(
            mean=value('mean'), std=value('std'),
            to_rgb=meta['channel_order'] == 'RGB')
    crop = dict(type='RandomResizedCrop', scale=value('training_size'))
    pipeline = [crop] if crop['scale'] else []
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
    """Name the backbone of a config, as ``"ResNet(depth=50)"``."""
    for backbone in find_settings(settings, 'backbone'):
        known = ', '.join(f'{key}={backbone[key]!r}'
                          for key in ('arch', 'depth')
                          if isinstance(backbone.get(key), str | int))
        return f"{backbone.get('type', '')}({known})"
    return ''


def normalization_in(settings: Any) -> Normalization | None:
    """The input normalization of a config; None if it is not given."""
    for given in find_settings(settings, 'data_preprocessor'):
        rgb = any(given.get(key) is True for key in ('bgr_to_rgb', 'to_rgb'))
        try:
            return Normalization(tuple(map(float, given.get('mean') or ())),
                                 tuple(map(float, given.get('std') or ())),
                                 rgb)
        except (TypeError, ValueError):
            return None
    return None


def input_normalization(content: Any) -> Normalization | None:
    """The input normalization that a checkpoint was trained with."""
    return normalization_in(stored_config(content))


def classes_in(content: Any) -> tuple[str, ...]:
    """The classes that a checkpoint was trained on; empty if unknown."""
    for name in ('meta', 'dataset_meta', 'classes'):
        content = content.get(name) if isinstance(content, Mapping) else None
    return tuple(map(str, content)) if isinstance(
        content, list | tuple) else ()


def checkpoints_in(work_dir: str) -> list[str]:
    """Checkpoints of a run, the one to resume first.

    That is the one ``last_checkpoint`` names, looked for in this folder,
    which may have been moved; then the others, newest first.
    """
    try:
        named = Path(work_dir, 'last_checkpoint').read_text().strip()
    except (OSError, UnicodeDecodeError):
        named = ''
    here = str(Path(work_dir, os.path.basename(named))) if named else ''
    others = sorted(
        (str(path) for path in Path(work_dir).glob('*.pth')
         if _step(str(path)) >= 0 and str(path) != here),
        key=_step, reverse=True)
    last = _step(here)
    if last >= 0:  # later ones belong to an older, longer run
        others.sort(key=lambda path: _step(path) > last)
    return [here, *others] if os.path.isfile(here) else others


def latest(work_dir: str) -> str | None:
    """The checkpoint that a run wrote last, or None."""
    return next(iter(checkpoints_in(work_dir)), None)


def _step(path: str) -> int:
    """Epoch or iteration in the name of a checkpoint, or -1."""
    match = re.fullmatch(r'(?:epoch|iter)_(\d+)\.pth', os.path.basename(path))
    return int(match[1]) if match else -1


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


def _safe_globals() -> list:
    """What mmengine pickles beyond tensors."""
    scalars = (np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8,
               np.uint16, np.uint32, np.uint64, np.float16, np.float32,
               np.float64)
    found = [
        (HistoryBuffer, 'mmengine.logging.history_buffer.HistoryBuffer'),
        (_history_buffer_method, 'builtins.getattr'),
        (np.ndarray, 'numpy.ndarray'), (np.dtype, 'numpy.dtype')]
    for dtype in {type(np.dtype(scalar)) for scalar in scalars}:
        found.append((dtype, f'{dtype.__module__}.{dtype.__qualname__}'))
    # numpy 2 renamed the module; files keep the name of their writer's.
    for module in ('numpy.core.multiarray', 'numpy._core.multiarray'):
        found += [(multiarray.scalar, f'{module}.scalar'),
                  (multiarray._reconstruct, f'{module}._reconstruct')]
    return found


torch.serialization.add_safe_globals(_safe_globals())
