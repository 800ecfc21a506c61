"""Weights with the published names of Mobile-Former V1, made from the names.

The outputs in ``tests/data/mobile_former_v1`` were made with the same weights.
"""
import zlib
from pathlib import Path

import numpy as np
import torch

DATA = Path(__file__).parents[2] / 'data' / 'mobile_former_v1'


def fill(name, shape):
    """The tensor of one published name."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    if name.endswith('num_batches_tracked'):
        value = np.zeros((), np.int64)
    elif name.endswith('running_var'):
        value = random.uniform(0.5, 1.5, shape)
    elif name.endswith('running_mean'):
        value = 0.1 * random.standard_normal(shape)
    elif len(shape) == 1 and name.endswith('weight'):
        value = random.uniform(0.8, 1.2, shape)
    elif len(shape) == 1:
        value = 0.1 * random.standard_normal(shape)
    else:
        value = random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
    if value.dtype == np.float64:
        value = value.astype(np.float32)
    return torch.from_numpy(value)


def weights(shapes):
    """Weights of all names."""
    return {name: fill(name, shape) for name, shape in shapes.items()}


def listed_shapes(variant):
    """Names and shapes of 26m, 96m or 294m."""
    shapes = {}
    for line in (DATA / f'v1_keys_{variant}.txt').read_text().splitlines():
        name, shape = line.split()
        shapes[name] = () if shape == 'scalar' else tuple(
            map(int, shape.split('x')))
    return shapes


def image(variant, size=224):
    """The image that the outputs in ``data`` belong to."""
    seed = zlib.crc32(f'input-{variant}'.encode())
    pixels = np.random.default_rng(seed).standard_normal((2, 3, size, size))
    return torch.from_numpy(pixels.astype(np.float32))
