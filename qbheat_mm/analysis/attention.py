# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Attention maps of Mobile-Former's bridges between pixels and tokens.

Figures 13 and 14.
"""
from collections import defaultdict
from functools import partial
from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import UserError
from ..models.layers import FormerToMobile, MobileFormerBlock, MobileToFormer
from ..report.style import bare, in_style, new_figure, show_picture
from ..utils.modules import evaluating

#: Titles of the bridges. Attention sums to 1 over the pixels in Mobile->Former
#: and over the tokens in Former->Mobile.
BRIDGES = dict(mobile_to_former='Mobile → Former',
               former_to_mobile='Former → Mobile')
_SCALES = dict(
    mobile_to_former='attention /\nmaximum of the map',
    former_to_mobile='attention (sums to 1\nover the tokens)')


@torch.no_grad()
def attention_maps(backbone: nn.Module,
                   images: Tensor) -> dict[int, dict[str, Tensor]]:
    """Compute the attention of all Mobile-Former blocks.

    Args:
        backbone (MobileFormer): The encoder; left unchanged.
        images (Tensor): Normalized images, (B, 3, H, W).

    Returns:
        dict[int, dict[str, Tensor]]: Block (counted from 1 with the lite
        bottlenecks, as in the paper) and bridge to maps (B, heads, T, H, W),
        of the block's input in Mobile->Former and of its output in
        Former->Mobile. Blocks that ``out_indices`` does not need are left
        out.

    Raises:
        UserError: If the backbone has no Mobile-Former block.
    """
    maps: dict[int, dict[str, Tensor]] = defaultdict(dict)

    def record(number, name, bridge, inputs, output) -> None:
        maps[number][name] = _attention(bridge, *inputs)

    handles = []
    for number, block in numbered_blocks(backbone).items():
        for name in BRIDGES:
            handles.append(getattr(block, name).register_forward_hook(
                partial(record, number, name)))
    try:
        with evaluating(backbone):
            backbone(images)
    finally:
        for handle in handles:
            handle.remove()
    return dict(maps)


def _attention(bridge: MobileToFormer | FormerToMobile, x: Tensor,
               tokens: Tensor) -> Tensor:
    """Compute the maps (B, heads, T, H, W) of a bridge from its input."""
    if isinstance(bridge, FormerToMobile):
        key, _ = bridge.per_head(bridge.key_value(tokens)).chunk(2, dim=-1)
        maps = bridge.attention(key, x.flatten(2))
    else:
        query, _ = bridge.query_gate(tokens).chunk(2, dim=-1)
        query = query.unflatten(-1, (bridge.num_heads, -1)).transpose(1, 2)
        pixels = x.unflatten(1, (bridge.num_heads, -1)).flatten(3)
        scores = query.shape[-1]**-0.5 * query @ pixels
        maps = scores.softmax(dim=-1)
    return maps.unflatten(-1, x.shape[2:])


def numbered_blocks(backbone: nn.Module) -> dict[int, MobileFormerBlock]:
    """Return the blocks with bridges by number, or raise UserError."""
    rows = chain.from_iterable(getattr(backbone, 'stages', ()))
    blocks = {number: block for number, block in enumerate(rows, start=1)
              if isinstance(block, MobileFormerBlock)}
    if not blocks:
        raise UserError(f'{type(backbone).__name__} has no bridge between '
                        'pixels and tokens: attention maps need a '
                        'MobileFormer')
    return blocks


def default_blocks(backbone: nn.Module) -> list[int]:
    """Choose the last block of each stage and the middle of the last stage.

    For the encoders of QB-Heat these are the blocks 3, 6, 10 and 12.
    """
    ends = [0]
    for stage in backbone.stages:
        ends.append(ends[-1] + len(stage))
    middle = ends[-2] + 1 + len(backbone.stages[-1]) // 2
    return sorted({*ends, middle} & set(numbered_blocks(backbone)))


@in_style()
def draw_attention(bridge: str, picture: np.ndarray, models: dict):
    """Draw tokens in columns, blocks and heads in rows, models side by side.

    Mobile->Former maps are each scaled to their maximum.

    Args:
        bridge (str): One of :data:`BRIDGES`.
        picture (np.ndarray): The image, (H, W, 3), RGB, uint8.
        models (dict[str, dict[str, dict[int, np.ndarray]]]): Model, label of
            the row and token to map, (H, W).
    """
    num_rows, columns = 0, []
    for rows in models.values():
        num_rows = max(num_rows, len(rows))
        columns.append(len(next(iter(rows.values()))))
    widths = np.array(columns) + 0.5
    figure = new_figure(widths.sum() + 1.7, 0.88 * num_rows + 0.9)
    figure.suptitle(BRIDGES[bridge], fontsize=11)
    parts = figure.subfigures(1, 1 + len(models), squeeze=False,
                              width_ratios=[1.4, *widths])[0]
    for part, (name, rows), width in zip(parts[1:], models.items(), columns):
        part.suptitle(name, fontsize=9)
        axes = part.subplots(len(rows), width, squeeze=False)
        for i, (label, maps) in enumerate(rows.items()):
            for axis, (token, values) in zip(axes[i], maps.items()):
                if bridge == 'mobile_to_former':
                    values = values / max(float(values.max()), 1e-12)
                drawn = axis.imshow(values, vmin=0, vmax=1,
                                    interpolation='nearest')
                axis.set_title('' if i else f'token {token}', fontsize=8)
                bare(axis)
            axes[i, 0].set_ylabel(label, fontsize=8)
    # The color bar is below the image to give all maps the same size.
    image, scale, rest = parts[0].subplots(
        3, 1, height_ratios=[1.4, 0.1, max(0.88 * num_rows - 1.5, 0.1)])
    show_picture(image, picture, 'image')
    bare(rest)
    colorbar = figure.colorbar(drawn, cax=scale, orientation='horizontal')
    colorbar.set_label(_SCALES[bridge], fontsize=8)
    return figure
