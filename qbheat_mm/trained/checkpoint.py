# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Checkpoints: their weights, and the training that they come from."""
import json
import logging
import os
from collections import Counter
from collections.abc import Iterable, Mapping, MutableMapping
from functools import cached_property, lru_cache
from typing import Any

from mmengine.logging import print_log
from torch import Tensor, nn

from ..errors import UserError
from ..models.backbones import FrozenBackbone
from ..utils.settings import (
    backbone_name,
    find_settings,
    prediction_transforms,
    type_name,
)
from .fit import few, mismatch
from .normalization import (
    Normalization,
    input_normalization,
    require_close,
)
from .safe_load import safe_load
from .stored_config import parse_config


class Checkpoint:
    """Weights of a trained model, and the facts stored with them.

    Nothing in a checkpoint is executed: the stored config is parsed only.

    Args:
        content (Mapping): Content of the file.
        path (str | PathLike): Its file or URL, for messages.

    Attributes:
        content, path: As given.
    """

    def __init__(self, content: Mapping, path: str | os.PathLike = '') -> None:
        self.content = content
        self.path = os.fspath(path)

    @classmethod
    def read(cls, path: str | os.PathLike,
             map_location: Any = 'cpu') -> 'Checkpoint':
        """Read a file.

        Args:
            path (str | PathLike): File, ``.safetensors`` file or http(s) URL.
            map_location (Any): See ``torch.load``. Defaults to 'cpu'.

        Returns:
            Checkpoint: A safetensors file gives ``state_dict`` and its
            metadata as ``meta``.

        Raises:
            FileNotFoundError: If there is no such file.
            UserError: If it is damaged, not a checkpoint, or contains objects
                that could run code.
        """
        return cls(safe_load(path, map_location), path)

    @classmethod
    def read_once(cls, path: str | os.PathLike) -> 'Checkpoint':
        """Read a file that several parts of a program ask for.

        The last file is kept in memory, and read again if it has changed.
        """
        path = os.fspath(path)
        local, state = os.path.expanduser(path), None
        if os.path.isfile(local):
            facts = os.stat(local)
            state = facts.st_mtime_ns, facts.st_size
        return _read_once(path, state)

    @cached_property
    def weights(self) -> dict[str, Any]:
        """Weights by name, without a wrapper's ``module.``."""
        content = self.content
        for key in ('state_dict', 'model'):
            if isinstance(content.get(key), Mapping):
                content = content[key]
        weights = {}
        for name, value in content.items():
            weights[str(name).removeprefix('module.')] = value
        return weights

    @property
    def meta(self) -> Mapping:
        """Metadata; empty if there are none."""
        meta = self.content.get('meta')
        return meta if isinstance(meta, Mapping) else {}

    @property
    def best(self) -> str:
        """The best checkpoint when this was written; '' if unknown."""
        hub = self.content.get('message_hub')
        facts = next(find_settings(hub, 'runtime_info'), {})
        return str(facts.get('best_ckpt') or '')

    @cached_property
    def config(self) -> dict:
        """Literal settings of the run's config, which is parsed but not run.

        Empty if there are none.
        """
        return parse_config(self.meta)

    @property
    def normalization(self) -> Normalization | None:
        """Input normalization in training; None if unknown."""
        return input_normalization(self.config)

    @property
    def classes(self) -> tuple[str, ...]:
        """Classes in training; empty if unknown."""
        known = self.meta.get('dataset_meta')
        classes = known.get('classes') if isinstance(known, Mapping) else ()
        if not isinstance(classes, list | tuple):
            return ()
        return tuple(str(name) for name in classes)

    @property
    def score_threshold(self) -> float | None:
        """Score of a detector's best F1 in validation; None if unknown."""
        threshold = self.meta.get('score_threshold')
        return threshold if isinstance(threshold, float) else None

    def weights_of_parts(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the weights of all parts that these names belong to.

        A part is a top-level module, such as the head. Layers that a model
        lacks are included, but not whole parts that it lacks, such as the
        decoder of pre-training.
        """
        parts = {name.split('.')[0] for name in names}
        return {name: value for name, value in self.weights.items()
                if name.split('.')[0] in parts}

    def encoder_weights(self, names: Iterable[str]) -> dict[str, Any]:
        """Find an encoder's weights.

        Args:
            names (Iterable[str]): Tensor names of the encoder.

        Returns:
            dict[str, Any]: Values under these names, from a checkpoint of
            pre-training, probing, classification or detection, or of the
            encoder alone; empty if none of the names is found.
        """
        names = set(names)
        prefix = _find_prefix(names, self.weights)
        if prefix is None:
            return {}
        # Files of a bare encoder may include a classifier.
        children = {name.split('.')[0] for name in names}
        found = {}
        for key, value in self.weights.items():
            name = key.removeprefix(prefix)
            is_part = (key.startswith(prefix) if prefix
                       else name.split('.')[0] in children)
            if is_part:
                found[name] = value
        return found

    def load_encoder(self, backbone: nn.Module,
                     normalization: Normalization | None = None) -> None:
        """Load all tensors of an encoder, or raise and leave it unchanged.

        Args:
            backbone (nn.Module): Any backbone of mmpretrain or mmdet.
            normalization (Normalization, optional): Normalization of its
                input, to be checked.

        Raises:
            UserError: If tensors are missing, don't fit or aren't part of
                it, or if training normalized images differently.
        """
        needed = backbone.state_dict()
        found = self.encoder_weights(needed)
        name, arch = type(backbone).__name__, getattr(backbone, 'arch', None)
        if isinstance(arch, str):
            name += f'(arch={arch!r})'
        if not found:
            raise UserError(
                f"checkpoint '{self.path}' holds no tensor of {name}, but "
                f'{few(self.weights) or "none at all"}')
        self.require_fit(needed, found, name)
        require_close(self.normalization, normalization, self.path)
        backbone.load_state_dict(found, strict=False)

    def load_model(self, model: nn.Module) -> None:
        """Load all tensors of a model, or raise and leave it unchanged.

        Parts that the model lacks are ignored.

        Args:
            model (nn.Module): The model.

        Raises:
            UserError: If tensors are missing, don't fit or aren't part of
                it, or if the model normalizes its input differently.
        """
        needed = model.state_dict()
        rename_encoder(self.weights, model)
        found = self.weights_of_parts(needed)
        self.require_fit(needed, found, type(model).__name__)
        require_close(self.normalization, Normalization.of(model), self.path)
        model.load_state_dict(found, strict=False)

    def warn_of_other_settings(self, cfg: Mapping) -> None:
        """Warn if a model's boxes or images differ from those of its training.

        Compares anchors, box coders and the test pipeline of a config with
        the stored ones; weights fit any.
        """
        if not self.config or 'module' in cfg.get('model', {}):
            return  # unknown, or test-time augmentation
        try:
            known = _settings_without_weights(self.config)
        except (AttributeError, TypeError):  # a file may contain anything
            return
        for name, given in _settings_without_weights(cfg).items():
            if known[name] and known[name] != given:
                print_log(
                    f"'{self.path}' was trained with another {name}: "
                    f'{known[name]}, not {given or "none"}. Results may be '
                    'worse: use the config in the work folder of its run',
                    'current', logging.WARNING)

    def require_fit(self, needed: Mapping[str, Tensor],
                    found: Mapping[str, Any], network: str,
                    hint: str = '') -> None:
        """Raise UserError if weights don't fit a network.

        Args:
            needed (Mapping[str, Tensor]): Tensors of the network.
            found (Mapping[str, Any]): Weights of this checkpoint.
            network (str): Name of the network, for the message.
            hint (str): End of the message. Defaults to ''.
        """
        problem = mismatch(needed, found)
        if problem:
            backbone = backbone_name(self.config)
            origin = f' (trained with {backbone})' if backbone else ''
            raise UserError(f"checkpoint '{self.path}'{origin} does not fit "
                            f'{network}: {problem}{hint}')


def _settings_without_weights(cfg: Mapping) -> dict[str, str]:
    """Describe the settings that weights depend on but don't contain."""
    steps = map(_describe, prediction_transforms(cfg))
    described = {'test pipeline': ', '.join(steps)}
    for key in ('anchor_generator', 'bbox_coder'):
        found = map(_describe, find_settings(cfg.get('model') or {}, key))
        described[key] = ', '.join(sorted(found))
    return described


def _describe(settings: Mapping) -> str:
    # Types may be classes or names.
    return json.dumps(dict(settings, type=type_name(settings)),
                      sort_keys=True, default=str)


@lru_cache(maxsize=1)
def _read_once(path: str, state: tuple[int, int] | None) -> Checkpoint:
    return Checkpoint.read(path)


def rename_encoder(weights: MutableMapping[str, Any], model: nn.Module
                   ) -> None:
    """Rename an encoder's weights if either was frozen, the file or the model.

    A :class:`FrozenBackbone` adds ``network.`` to the names.

    Args:
        weights (MutableMapping): Weights of a checkpoint by name, changed in
            place.
        model (nn.Module): The model that they are for.
    """
    backbone, prefix = getattr(model, 'backbone', None), 'backbone.'
    if backbone is None:
        return
    if isinstance(backbone, FrozenBackbone):
        backbone, prefix = backbone.network, 'backbone.network.'
    given = _find_prefix({*backbone.state_dict()}, weights)
    if given == prefix or given not in ('backbone.', 'backbone.network.'):
        return
    for name in list(weights):
        if name.startswith(given):
            weights[prefix + name.removeprefix(given)] = weights.pop(name)


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
