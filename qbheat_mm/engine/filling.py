# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Fill a whole model from its checkpoint, entirely or not at all."""
from typing import Any

from torch import nn

from ..errors import UserError
from .matching import compare
from .origin import (
    describe_backbone,
    pixels_of,
    require_pixels,
    trained_pixels,
)
from .weights import named_weights, require_possible

_WAY_OUT = 'give the configuration that it was trained with'


def fill(model: nn.Module, content: Any, checkpoint: str) -> None:
    """Load the weights of a checkpoint that must have all of a model's.

    What else the checkpoint holds is left.

    Args:
        model (nn.Module): Filled in place; untouched if anything is wrong.
        content (Any): The checkpoint, as loaded.
        checkpoint (str): Its name, for messages.

    Raises:
        UserError: If names or shapes differ, values are no possible weights,
            or the images were normalized otherwise.
    """
    weights = named_weights(content)
    needed = model.state_dict()
    found = {name: weights[name] for name in needed if name in weights}
    mismatch = compare(needed, found)
    if mismatch:
        origin = describe_backbone(content)
        origin = f', trained with {origin},' if origin else ''
        raise UserError(
            f"checkpoint '{checkpoint}'{origin} does not fit the "
            f'configuration: {mismatch}; {_WAY_OUT}')
    require_possible(found, checkpoint)
    require_pixels(trained_pixels(content),
                   pixels_of(getattr(model, 'data_preprocessor', None)),
                   checkpoint, _WAY_OUT)
    # What may be absent, `compare` knows.
    model.load_state_dict(found, strict=False)
