"""Where the unmasked quarter stands in an image."""
from collections.abc import Sequence

import torch
from torch import Tensor

from ...errors import UserError

#: The four corners with their (column, row) in the 2x2 grid of quarters.
CORNERS = dict(
    top_left=(0, 0), top_right=(1, 0), bottom_left=(0, 1), bottom_right=(1, 1))
CENTER = 'center'
#: What a model may be trained on (Table "ablation", a).
POSITIONS = ('corner', 'center', 'mixed')

#: Consecutive images of a batch that share a position: (position, count).
Positions = Sequence[tuple[str, int]]


def sample_positions(batch_size: int, position: str) -> list[tuple[str, int]]:
    """Give each image of a batch the position of its unmasked quarter.

    Corners are spread evenly over the batch, starting at a random one; in
    ``'mixed'`` half of the batch is corner, half center (Figure "Spectrum of
    matrices A and B"). How the corners share their half is not said.

    Args:
        batch_size (int): Number of images.
        position (str): ``'corner'``, ``'center'`` or ``'mixed'``.

    Returns:
        list[tuple[str, int]]: Positions and counts, in the batch's order.

    Raises:
        UserError: A single image cannot be split into the two halves.
    """
    if position == 'center':
        return [(CENTER, batch_size)]
    num_corner = batch_size
    if position == 'mixed':
        if batch_size < 2:
            raise UserError(
                f"a batch of {batch_size} image cannot be half corner, half "
                "center: use a batch size of at least 2 (with drop_last=True "
                "in the train_dataloader), or position='corner'")
        num_corner = batch_size // 2
    first = int(torch.randint(4, ()))
    names = [*CORNERS][first:] + [*CORNERS][:first]
    counts = [len(range(i, num_corner, 4)) for i in range(4)]
    positions = [(name, n) for name, n in zip(names, counts) if n]
    if position == 'mixed':
        positions.append((CENTER, batch_size - num_corner))
    return positions


def quarter_offset(position: str, height: int, width: int) -> tuple[int, int]:
    """Top and left of the unmasked quarter of a height x width map."""
    if position == CENTER:
        return height // 4, width // 4
    column, row = CORNERS[position]
    return row * (height // 2), column * (width // 2)


def masked_patch_ids(positions: Positions, height: int, width: int) -> Tensor:
    """The patches that the encoder does not see.

    Args:
        positions (Sequence[tuple[str, int]]): Positions of the quarters.
        height (int): Rows of patches.
        width (int): Columns of patches.

    Returns:
        Tensor: (B, 3/4 of height * width), int64, counted in rows,
        ascending; on the CPU.
    """
    rows = []
    for position, count in positions:
        masked = torch.ones(height, width, dtype=torch.bool)
        top, left = quarter_offset(position, height, width)
        masked[top:top + height // 2, left:left + width // 2] = False
        rows.append(masked.flatten().nonzero()[:, 0].expand(count, -1))
    return torch.cat(rows)
