# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Attention maps of the bridge (Figures "m2f" and "f2m", appendix)."""
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..attention import MOBILE_TO_FORMER
from .style import (
    MAP,
    as_written,
    bare,
    grid,
    in_style,
    new_figure,
    show_picture,
)

_TITLES = dict(
    mobile_to_former='Mobile → Former: where each token looks',
    former_to_mobile='Former → Mobile: which token each pixel reads')

_SCALES = dict(
    mobile_to_former='attention /\nmaximum of the map',
    former_to_mobile='attention (sums to 1\nover the tokens)')


@dataclass(frozen=True)
class Panel:
    """The maps of one block and head.

    Attributes:
        label (str): ``'block 12, head 1'``.
        tokens (list[int]): Numbers of the T tokens, from 1.
        maps (np.ndarray): (T, H, W).
    """
    label: str
    tokens: list[int]
    maps: np.ndarray


def draw_attention(bridge: str, picture: np.ndarray, models: dict):
    """Tokens in columns, blocks and heads in rows, models side by side.

    Args:
        bridge (str): ``'mobile_to_former'`` or ``'former_to_mobile'``.
        picture (np.ndarray): The image, (H, W, 3), RGB, uint8.
        models (dict[str, list[Panel]]): Panels by the model's name.

    Returns:
        matplotlib.figure.Figure: Mobile->Former maps are scaled to the
        maximum of each map, since they sum to 1 over the pixels;
        Former->Mobile maps, which sum to 1 over the tokens, all from 0 to 1.
    """
    num_rows = max(len(panels) for panels in models.values())
    widths = [len(panels[0].tokens) + 0.5 for panels in models.values()]
    with in_style():
        figure = new_figure(sum(widths) + 1.7, 0.88 * num_rows + 0.9)
        figure.suptitle(_TITLES[bridge], fontsize=11)
        parts = figure.subfigures(
            1, 1 + len(models), squeeze=False,
            width_ratios=[1.4, *widths])[0]
        for part, (name, panels) in zip(parts[1:], models.items()):
            part.suptitle(as_written(name), fontsize=9)
            drawn = _draw_panels(part, bridge, panels)
        # The scale stands below the image, so that all maps keep one size.
        image, scale, rest = parts[0].subplots(
            3, 1, height_ratios=[1.4, 0.1, max(0.88 * num_rows - 1.5, 0.1)])
        show_picture(image, picture, 'image')
        bare(rest)
        colorbar = figure.colorbar(drawn, cax=scale, orientation='horizontal')
        colorbar.set_label(_SCALES[bridge], fontsize=8)
    return figure


def _draw_panels(part, bridge: str, panels: Sequence[Panel]):
    axes = grid(part, len(panels), len(panels[0].tokens))
    for i, panel in enumerate(panels):
        for axis, token, values in zip(axes[i], panel.tokens, panel.maps):
            if bridge == MOBILE_TO_FORMER:
                values = values / max(float(values.max()), 1e-12)
            drawn = axis.imshow(values, cmap=MAP, vmin=0, vmax=1,
                                interpolation='nearest')
            axis.set_title('' if i else f'token {token}', fontsize=8)
            bare(axis)
        axes[i, 0].set_ylabel(panel.label, fontsize=7)
    return drawn
