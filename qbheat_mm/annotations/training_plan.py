# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The size of images and the length of training that a data set needs.

The rule, whose results the config states:

- *Size.* Small boxes, the 5th percentile, get sides of 32 pixels: four cells
  of the finest map, of stride 8. For that, images are shrunk, but not below
  256x256 pixels, or enlarged at most 2x, within a budget of 640x640 pixels;
  1333x800 with a GPU.
- *Anchors* start at the size of small boxes, between 8 and 32 pixels.
- *Steps:* 12 epochs in batches of 8, at least 600 steps; without a GPU, at
  most 2,000.
- *Evaluations:* up to four, which take less than a fifth of the time.
"""
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .account import Account, Kind
from .records import ListedImage

#: Side of small boxes to aim at, and stride of the finest map, in pixels.
SMALL_BOX, STRIDE = 32, 8
#: Root of the pixels that images are not shrunk below.
FLOOR = 256
BATCH, EPOCHS, MIN_STEPS = 8, 12, 600
#: Pixels of an image, and steps, by whether there is a GPU.
MAX_PIXELS = {False: 640 * 640, True: 1333 * 800}
MAX_STEPS = {False: 2000, True: 20000}
# Sides of batches are multiples of it.
_DIVISOR = 32


class TrainingPlan(NamedTuple):
    """Settings of a detector's training.

    Attributes:
        images (int): Number of training images.
        native (tuple[int, int]): Longer and shorter side of a typical image.
        scale (tuple[int, int]): Those that images are resized to fit.
        small_box (float): Side of small boxes at that scale, in pixels.
        steps (int): Steps of training.
        val_interval (int): Steps between evaluations.
        workers (int): Processes that load images. Without a GPU, they would
            take the cores from training.
    """
    images: int
    native: tuple[int, int]
    scale: tuple[int, int]
    small_box: float
    steps: int
    val_interval: int
    workers: int

    @property
    def interpolation(self) -> str:
        """Name of mmcv's interpolation: antialiased if images shrink."""
        return 'area' if self.scale < self.native else 'bilinear'

    @property
    def anchor_scale(self) -> float:
        """Side of the smallest anchors in cells of the finest map."""
        cells = round(2 * self.small_box / STRIDE) / 2
        return min(max(cells, 1), SMALL_BOX / STRIDE)

    def note_tiny_boxes(self, account: Account) -> None:
        """Warn of boxes that are smaller than a cell of the finest map."""
        if self.small_box < STRIDE:
            account.note(
                Kind.WARNING,
                f'1 in 20 boxes is below {self.small_box:.1f} pixels at the '
                f'size of training, {self.scale[0]} x {self.scale[1]}: cut '
                'the images into tiles, or set --size')


def plan_training(train: Sequence[ListedImage], val_images: int,
                  has_gpu: bool, longer_side: int | None = None
                  ) -> TrainingPlan:
    """Apply the rule.

    Args:
        train (Sequence[ListedImage]): The training images, opened.
        val_images (int): Number of validation images.
        has_gpu (bool): Whether training will have a GPU.
        longer_side (int, optional): Longer side of resized images, instead
            of the rule's.
    """
    native = _typical_size(train)
    share = _small_box_share(train)
    if longer_side is None:
        scale = _choose_scale(native, share, MAX_PIXELS[has_gpu])
    else:
        scale = longer_side, round(longer_side * native[1] / native[0])
    steps = min(max(EPOCHS * len(train) // BATCH, MIN_STEPS),
                MAX_STEPS[has_gpu])
    # A step's image takes about twice as long as one that is evaluated.
    fitting = 0.2 * steps * BATCH / (val_images / 2)
    evaluations = min(max(math.floor(fitting), 1), 4)
    return TrainingPlan(
        len(train), native, scale, share * math.sqrt(math.prod(scale)), steps,
        math.ceil(steps / evaluations), 8 if has_gpu else 0)


def _typical_size(images: Sequence[ListedImage]) -> tuple[int, int]:
    """Longer and shorter side of an image of median size and shape."""
    sizes = np.sort([image.size for image in images])
    side = np.median(np.sqrt(sizes.prod(1)))
    stretch = np.sqrt(np.median(sizes[:, 1] / sizes[:, 0]))
    return round(side * stretch), round(side / stretch)


def _small_box_share(images: Sequence[ListedImage]) -> float:
    """Side of small boxes relative to their image's; 1 without any box."""
    shares = []
    for image in images:
        whole = math.prod(image.size)
        for box in image.boxes:
            if not box.crowd:
                shares.append(math.sqrt(box.bbox[2] * box.bbox[3] / whole))
    return float(np.quantile(shares, 0.05)) if shares else 1.


def _choose_scale(native: tuple[int, int], share: float, budget: int
                  ) -> tuple[int, int]:
    """Sides that give small boxes enough pixels, within the budget."""
    side, stretch = math.sqrt(math.prod(native)), native[0] / native[1]
    wanted = SMALL_BOX / max(share, 1e-6)
    if wanted > side:
        wanted = min(wanted, 2 * side)
    else:
        wanted = min(max(wanted, FLOOR), side)
    wanted = min(wanted, math.sqrt(budget))
    if math.isclose(wanted, side):
        return native
    longer = _DIVISOR * math.ceil(wanted * math.sqrt(stretch) / _DIVISOR)
    return longer, round(longer / stretch)
