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
from projects.drawn_world.digits import PhotographBank
from projects.drawn_world.objects import draw_parts
from projects.drawn_world.scenes import MIN_SIZE, Thing, _cover
from projects.drawn_world.textures import TILE, MaterialBank
from qbheat_mm.errors import UserError

SIZE = 128


@pytest.fixture(scope='module')
def bank():
    return TextureBank(tiles=40)


@pytest.mark.parametrize('shape', CLASSES)
def test_objects_fit_into_their_circle(shape):
    for seed in range(20):
        parts = draw_parts(np.random.default_rng(seed), shape)
        corners = np.concatenate([c for part in parts for c in part])
        assert np.hypot(*corners.T).max() < 1.2
        thing = Thing(parts, np.array([64., 64.]), 40.)
        area = (thing.mask((0, 0, 128, 128)) > 127).sum()
        assert area > 0.1 * 40**2


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


class White:
    """Surfaces that one sees."""

    @staticmethod
    def surface(rng, height, width, avoid=None):
        return np.full((height, width, 3), 255, np.float32)


def test_what_clutter_covers_is_no_longer_of_the_mask():
    changed = 0
    for seed in range(60):
        image = np.zeros((64, 64, 3), np.float32)
        before = np.zeros((64, 64), bool)
        before[16:48, 16:48] = True
        masks = [before.copy()]
        _cover(np.random.default_rng(seed), White, image, masks,
               np.zeros(2))
        # Anti-aliased borders may round either way.
        sure = (image[..., 0] < 100) | (image[..., 0] > 155)
        assert np.array_equal(masks[0][sure],
                              (before & (image[..., 0] < 128))[sure])
        changed += not np.array_equal(masks[0], before)
    assert changed > 5


@pytest.mark.parametrize('make_bank, expected', [
    (TextureBank, 'd9f18f8495cde89a'),
    (lambda: MaterialBank(tiles=20), '12d2f417079b3d5d'),
    (PhotographBank, 'bfdec7c3ac6edccb')])
def test_images_of_demo_and_study_stay_as_they_are(make_bank, expected):
    """Docs have the demo's table, and the study's rows are permanent."""
    bank, digest = make_bank(), hashlib.sha256()
    for i in range(4):
        for scene in (
                classification_scene(np.random.default_rng([0, 0, i]), bank,
                                     i, SIZE),
                detection_scene(np.random.default_rng([0, 2, i]), bank, SIZE)):
            digest.update(scene.image.tobytes())
    assert digest.hexdigest()[:16] == expected


def test_materials_tell_the_class():
    """Classes of one shape differ in texture or color, and in nothing else.
    """
    bank = MaterialBank(tiles=60)
    for label, name in enumerate(bank.classes):
        _, material = bank.draw_object(np.random.default_rng(0), label)
        surfaces = np.stack([material.surface(
            np.random.default_rng(i), 64, 64) for i in range(60)])
        warmth = (surfaces[..., 0] - surfaces[..., 2]).mean((1, 2))
        expected = dict(warm=90, cool=-90).get(name.split('-')[1], 0)
        assert abs(warmth.mean() - expected) < 20
        assert material.texture == (None if expected else name.split('-')[1])


def test_held_out_digits_and_photographs_are_never_trained_on():
    for seed in range(3):
        train, test = (PhotographBank(seed, held_out)
                       for held_out in (False, True))
        assert not {each.tobytes() for each in train.photographs} & {
            each.tobytes() for each in test.photographs}
        assert sum(map(len, (*train.digits, *test.digits))) == 1797
        for known, new in zip(train.digits, test.digits):
            both = [each.tobytes() for each in np.concatenate([known, new])]
            # A few digits were written twice alike.
            assert len(both) - len(set(both)) < 3
    other = PhotographBank(1, True)
    assert {each.tobytes() for each in other.photographs} != {
        each.tobytes() for each in PhotographBank(0, True).photographs}


def test_digits_keep_their_holes():
    bank = PhotographBank()
    parts, _ = bank.draw_object(np.random.default_rng(0), 0)
    mask = Thing(parts, np.array([32., 32.]), 30.).mask((0, 0, 64, 64)) > 127
    assert mask.any() and not mask[32, 32]
