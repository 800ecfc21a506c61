# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Deprecated: use :class:`qbheat_mm.trained.Checkpoint`."""
import warnings
from collections.abc import Mapping
from typing import Any

from torch import nn

from ..trained.checkpoint import Checkpoint

warnings.warn(
    'qbheat_mm.engine.checkpoint is deprecated and will be removed in 0.5: '
    'use qbheat_mm.trained.Checkpoint', DeprecationWarning, stacklevel=2)


def read(path: str, map_location: Any = 'cpu') -> dict:
    """Deprecated: ``Checkpoint.read(path).content``."""
    return Checkpoint.read(path, map_location).content


def weights(content: Mapping) -> dict[str, Any]:
    """Deprecated: ``Checkpoint.read(path).weights``."""
    return Checkpoint(content).weights


def load_strict(module: nn.Module, content: Mapping, source: str) -> None:
    """Deprecated: ``Checkpoint.read(path).load_model(model)``."""
    Checkpoint(content, source).load_model(module)
