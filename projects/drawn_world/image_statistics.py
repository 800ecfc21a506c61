# Copyright (c) QB-Heat MM authors. All rights reserved.
"""How close drawn images are to photographs, in four numbers.

All take grey images, (N, S, S), in any unit, and work image by image.
"""
from collections.abc import Sequence

import numpy as np

#: ITU-R BT.601 weights of red, green and blue.
_LUMINANCE = np.array([0.299, 0.587, 0.114])


def luminance(images: np.ndarray) -> np.ndarray:
    """RGB images (N, S, S, 3) as grey ones, (N, S, S), float64."""
    return np.asarray(images, dtype=np.float64) @ _LUMINANCE


def spectral_slope(images: np.ndarray) -> float:
    """Exponent of the power spectrum over frequency.

    About -2 for photographs (Field, "Relations between the statistics of
    natural images and the response properties of cortical cells", 1987). A
    window keeps the images' borders out; the line is fitted between 4 cycles
    an image and half of the highest frequency, in logarithms.
    """
    size = images.shape[-1]
    window = np.outer(np.hanning(size), np.hanning(size))
    centred = images - images.mean(axis=(1, 2), keepdims=True)
    power = np.abs(np.fft.fft2(centred * window))**2
    frequency = np.hypot(*np.meshgrid(
        size * np.fft.fftfreq(size), size * np.fft.fftfreq(size)))
    rings = np.arange(4, size // 4 + 1)
    mean = power.mean(axis=0)
    values = [mean[np.abs(frequency - ring) < 0.5].mean() for ring in rings]
    return float(np.polyfit(np.log(rings), np.log(values), 1)[0])


def flat_share(images: np.ndarray, patch: int = 16,
               deviation: float = 4.) -> float:
    """Share of patches with almost no contrast.

    Args:
        images (np.ndarray): (N, S, S), 0 to 255.
        patch (int): Side in pixels. Defaults to 16.
        deviation (float): Patches whose standard deviation is below it, in
            grey levels, are flat. Defaults to 4.
    """
    count = images.shape[-1] // patch
    cut = images[:, :count * patch, :count * patch]
    patches = cut.reshape(len(images), count, patch, count, patch)
    return float((patches.std(axis=(2, 4)) < deviation).mean())


def correlation(images: np.ndarray, distances: Sequence[int]) -> list[float]:
    """Correlation of two pixels by their distance, along x and y."""
    flat = images - images.mean(axis=(1, 2), keepdims=True)
    flat = flat / flat.std(axis=(1, 2), keepdims=True)
    return [
        float(0.5 * ((flat[:, d:] * flat[:, :-d]).mean() +
                     (flat[:, :, d:] * flat[:, :, :-d]).mean()))
        for d in distances
    ]


def kurtosis(images: np.ndarray) -> float:
    """Excess kurtosis of the differences of neighbours.

    0 for Gaussian noise; far above for photographs, whose differences are
    small but for edges.
    """
    differences = np.diff(images, axis=2).ravel()
    differences = differences - differences.mean()
    return float((differences**4).mean() / (differences**2).mean()**2 - 3)
