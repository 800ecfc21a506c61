# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What exported files say about their origin."""
import hashlib
import json
from pathlib import Path

from ..version import __version__
from .encoder import Encoder
from .model import TrainedModel


def origin_of(model: Encoder | TrainedModel) -> dict[str, str]:
    """Describe a model's weights and input normalization."""
    path = Path(model.checkpoint).expanduser()
    facts = dict(
        qbheat_mm=__version__, source=path.name,
        source_sha256=hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file() else '')
    if model.normalization is not None:
        facts.update(
            mean=json.dumps(model.normalization.mean),
            std=json.dumps(model.normalization.std),
            channel_order='RGB' if model.normalization.rgb else 'BGR')
    return facts
