# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Attention maps of the bridge (Figures "m2f" and "f2m", appendix)."""
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..attention import MOBILE_TO_FORMER
from .style import MAP, bare, grid, in_style, new_figure, show_picture

_TITLES = dict(
    mobile_to_former='Mobile → Former: where each token looks',
    former_to_mobile='Former → Mobile: which token each pixel reads')


@dataclass(frozen=True)
class Panel:
    """The maps of one block and head.

    Attributes:
        label (str): ``'block 12, head 1'``.
        maps (np.ndarray): (T, H, W).
    """
    label: str
    maps: np.ndarray


def draw_attention(bridge: str, picture: np.ndarray,
                   models: dict, tokens: Sequence[int]):
    """Tokens in columns, blocks and heads in rows, models side by side.

    Args:
        bridge (str): ``'mobile_to_former'`` or ``'former_to_mobile'``.
        picture (np.ndarray): The image, (H, W, 3), RGB, uint8.
        models (dict[str, list[Panel]]): Panels by the model's name; of each
            model the same blocks and heads.
        tokens (Sequence[int]): Numbers of the tokens shown, from 1.

    Returns:
        matplotlib.figure.Figure: Mobile->Former maps are scaled to the
        maximum of each map, since they sum to 1 over the pixels;
        Former->Mobile maps, which sum to 1 over the tokens, all from 0 to 1.
    """
    num_rows = max(len(panels) for panels in models.values())
    num_tokens = len(tokens)
    width = num_tokens * len(models) + 1.4
    with in_style():
        figure = new_figure(width + 0.8, 0.88 * num_rows + 0.9)
        figure.suptitle(_TITLES[bridge], fontsize=11)
        parts = figure.subfigures(
            1, 1 + len(models), squeeze=False,
            width_ratios=[1.4] + [num_tokens + 0.5] * len(models))[0]
        show_picture(parts[0].subplots(), picture, 'image')
        drawn = None
        for part, (name, panels) in zip(parts[1:], models.items()):
            part.suptitle(name, fontsize=9)
            drawn = _draw_panels(part, bridge, panels, tokens)
        colorbar = figure.colorbar(
            drawn, ax=parts[-1].axes, shrink=0.6, aspect=30)
        colorbar.set_label('share of the map\'s maximum' if bridge ==
                           MOBILE_TO_FORMER else 'attention (sums to 1 over '
                           'the tokens)')
    return figure


def _draw_panels(part, bridge: str, panels: Sequence[Panel],
                 tokens: Sequence[int]):
    axes = grid(part, len(panels), len(tokens))
    for i, panel in enumerate(panels):
        for axis, token, values in zip(axes[i], tokens, panel.maps):
            if bridge == MOBILE_TO_FORMER:
                values = values / max(float(values.max()), 1e-12)
            drawn = axis.imshow(values, cmap=MAP, vmin=0, vmax=1,
                                interpolation='nearest')
            axis.set_title('' if i else f'token {token}', fontsize=8)
            bare(axis)
        axes[i, 0].set_ylabel(panel.label, fontsize=7)
    return drawn
