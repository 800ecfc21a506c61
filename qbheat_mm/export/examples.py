# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Inputs on which exported networks are traced and compared."""
import torch
from torch import Tensor

from .graphs import IMAGES, SIZES, Graph

#: Images in a batch.
BATCHES = (1, 3)


def example_inputs(graph: Graph, batch: int, size: tuple[int, int],
                   seed: int = 0) -> dict[str, Tensor]:
    """Random images, of which all but the first are padded.

    Args:
        graph (Graph): Says which inputs there are.
        batch (int): Number of images.
        size (tuple[int, int]): Height and width of the batch.
        seed (int): Of the random pixels. Defaults to 0.

    Returns:
        dict[str, Tensor]: Name and tensor, in the order of the inputs.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, *size, 3) if graph.pictures else (batch, 3, *size)
    if graph.pictures:
        images = torch.randint(
            0, 256, shape, generator=generator, dtype=torch.uint8)
    else:
        images = torch.randn(shape, generator=generator)
    if SIZES not in graph.inputs:
        return {IMAGES: images}
    sizes = torch.tensor([
        [size[0] - i * (size[0] // 5), size[1] - i * (size[1] // 7)]
        for i in range(batch)])
    for image, (height, width) in zip(images, sizes.tolist()):
        rows = image if graph.pictures else image.permute(1, 2, 0)
        # Pictures may hold anything there.
        rows[height:] = 7 if graph.pictures else 0
        rows[:, width:] = 7 if graph.pictures else 0
    return {IMAGES: images, SIZES: sizes}


def compared_sizes(graph: Graph,
                   size: tuple[int, int] | None) -> list[tuple[int, int]]:
    """Heights and widths that an exported network is compared at.

    Args:
        graph (Graph): Its stride gives the smallest.
        size (tuple[int, int], optional): The only one that it is for.
    """
    if size is not None:
        return [size]
    stride = graph.stride
    return [(stride + 1, stride + 14), (2 * stride + 33, 2 * stride + 62),
            (stride + 57, 3 * stride + 5)]
