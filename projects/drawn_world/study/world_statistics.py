# Copyright (c) QB-Heat MM authors. All rights reserved.
"""How close the drawn images are to photographs, and how fast they come."""
import argparse
import time

import cv2
import numpy as np

from projects.drawn_world import (
    CLASSES,
    TextureBank,
    classification_scene,
)
from projects.drawn_world.image_statistics import (
    correlation,
    flat_share,
    kurtosis,
    luminance,
    spectral_slope,
)
from projects.drawn_world.textures import load_photographs

SIZE = 128
DISTANCES = (1, 4, 16, 32)


def drawn_images(count: int) -> tuple[np.ndarray, float]:
    """Scenes of one object, (N, S, S, 3), and seconds of CPU for each."""
    bank = TextureBank()
    start = time.process_time()
    images = [classification_scene(np.random.default_rng([0, i]), bank,
                                   i % len(CLASSES), SIZE).image
              for i in range(count)]
    return np.stack(images), (time.process_time() - start) / count


def crops_of_photographs(count: int) -> np.ndarray:
    """Crops of scikit-learn's two photographs, from fine to coarse."""
    rng, crops, photographs = np.random.default_rng(0), [], load_photographs()
    for i in range(count):
        photograph = photographs[i % len(photographs)]
        side = int(rng.integers(SIZE, min(photograph.shape[:2])))
        top, left = (int(rng.integers(n - side + 1))
                     for n in photograph.shape[:2])
        crops.append(cv2.resize(photograph[top:top + side, left:left + side],
                                (SIZE, SIZE), interpolation=cv2.INTER_AREA))
    return np.stack(crops)


def describe(images: np.ndarray) -> list[str]:
    """A column of the table."""
    grey = luminance(images)
    return [f'{spectral_slope(grey):.2f}', f'{100 * flat_share(grey):.1f} %',
            ', '.join(f'{c:.2f}' for c in correlation(grey, DISTANCES)),
            f'{kurtosis(grey):.0f}']


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--count', type=int, default=400, help='images')
    count = parser.parse_args().count
    drawn, seconds = drawn_images(count)
    rows = zip(['slope of the power spectrum',
                'patches of 16 x 16 with a deviation below 4 grey levels',
                'correlation of pixels at distances '
                + ', '.join(map(str, DISTANCES)),
                'excess kurtosis of differences of neighbours'],
               describe(drawn), describe(crops_of_photographs(count)))
    print(f'| {SIZE} x {SIZE}, {count} images | drawn | photographs |\n'
          '|---|---|---|')
    for row in rows:
        print('| ' + ' | '.join(row) + ' |')
    print(f'\n{1000 * seconds:.1f} ms of CPU an image')


if __name__ == '__main__':
    main()
