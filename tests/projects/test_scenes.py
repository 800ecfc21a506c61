# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The drawn world: repeatable, true to its labels, close to photographs."""
import hashlib

import numpy as np
import pytest

from projects.drawn_world import (
    CLASSES,
    TextureBank,
    classification_scene,
    detection_scene,
)
from projects.drawn_world.scenes import MIN_SIZE
from projects.drawn_world.textures import TILE, MaterialBank
from qbheat_mm.errors import UserError

SIZE = 128


@pytest.fixture(scope='module')
def bank():
    return TextureBank(tiles=40)


@pytest.mark.parametrize('size', [MIN_SIZE, TILE])
def test_the_smallest_and_the_largest_are_drawn(bank, size):
    for i in range(20):
        for scene in (
                detection_scene(np.random.default_rng([5, i]), bank, size),
                classification_scene(np.random.default_rng([6, i]), bank,
                                     i % len(CLASSES), size)):
            assert scene.image.shape == (size, size, 3)
            assert all(mask.any() for mask in scene.masks)


@pytest.mark.parametrize('size', [MIN_SIZE - 1, TILE + 1])
def test_others_are_refused(bank, size):
    with pytest.raises(UserError, match=f'{size} pixels: give 16 to 256'):
        detection_scene(np.random.default_rng(0), bank, size)


@pytest.mark.parametrize('make_bank, expected', [
    (TextureBank, '78f546007627e1f9'),
    (lambda: MaterialBank(tiles=20), '68310e55d7a1578c')])
def test_images_of_demo_and_study_stay_as_they_are(make_bank, expected):
    """Docs have the demo's table, and the study's rows are permanent."""
    bank, digest = make_bank(), hashlib.sha256()
    for i in range(8):
        for scene in (
                classification_scene(np.random.default_rng([0, 0, i]), bank,
                                     i, SIZE),
                detection_scene(np.random.default_rng([0, 2, i]), bank, SIZE)):
            for pixels in (scene.image, *scene.masks):
                digest.update(pixels.tobytes())
    assert digest.hexdigest()[:16] == expected
