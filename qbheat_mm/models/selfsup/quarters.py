# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Position of the visible quarter in an image."""
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ...errors import UserError

#: The four corners with their (column, row) in the 2x2 grid of quarters.
CORNERS = dict(
    top_left=(0, 0), top_right=(1, 0), bottom_left=(0, 1), bottom_right=(1, 1))
CENTER = 'center'
#: Options for training (Table 2a).
POSITIONS = ('corner', 'center', 'mixed')

#: Consecutive images of a batch with the same position: (position, count).
Positions = Sequence[tuple[str, int]]


def sample_positions(batch_size: int, position: str) -> list[tuple[str, int]]:
    """Assign a position of the visible quarter to each image of a batch.

    The four corners share the batch evenly, starting with a random one;
    ``'mixed'`` uses the center for half of the batch (Figure 7). The paper
    does not say how corners are drawn.

    Args:
        batch_size (int): Number of images.
        position (str): ``'corner'``, ``'center'`` or ``'mixed'``.

    Returns:
        list[tuple[str, int]]: Positions and counts, in batch order.

    Raises:
        UserError: If ``'mixed'`` gets a single image.
    """
    if position == 'center':
        return [(CENTER, batch_size)]
    num_corner = batch_size
    if position == 'mixed':
        if batch_size < 2:
            raise UserError(
                f"position='mixed' needs at least 2 images per batch, not "
                f'{batch_size}: raise train_dataloader.batch_size (and set '
                "drop_last=True), or set model.position='corner'")
        num_corner = batch_size // 2
    first = int(torch.randint(4, ()))
    names = [*CORNERS][first:] + [*CORNERS][:first]
    counts = [len(range(i, num_corner, 4)) for i in range(4)]
    positions = [(name, n) for name, n in zip(names, counts) if n]
    if position == 'mixed':
        positions.append((CENTER, batch_size - num_corner))
    return positions


def quarter_offset(position: str, height: int, width: int) -> tuple[int, int]:
    """Top and left of the visible quarter of a height x width map."""
    if position == CENTER:
        return height // 4, width // 4
    column, row = CORNERS[position]
    return row * (height // 2), column * (width // 2)


def masked_patch_ids(positions: Positions, height: int, width: int) -> Tensor:
    """Return the ids of each image's masked patches.

    Args:
        positions (Sequence[tuple[str, int]]): See :func:`sample_positions`.
        height (int): Rows of patches.
        width (int): Columns of patches.

    Returns:
        Tensor: (B, 3/4 of height * width), int64, row-major ids in ascending
        order, on the CPU.
    """
    rows = []
    for position, count in positions:
        masked = np.ones((height, width), dtype=bool)
        top, left = quarter_offset(position, height, width)
        masked[top:top + height // 2, left:left + width // 2] = False
        rows += [np.flatnonzero(masked)] * count
    return torch.from_numpy(np.stack(rows))
