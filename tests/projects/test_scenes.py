# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The drawn world: repeatable, true to its labels, close to photographs."""
import hashlib

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from projects.drawn_world import (
    CLASSES,
    TextureBank,
    classification_scene,
    detection_scene,
)
from projects.drawn_world.digits import PhotographBank
from projects.drawn_world.materials import MaterialBank
from projects.drawn_world.objects import draw_parts
from projects.drawn_world.scenes import MIN_SIZE, Thing, _cover
from projects.drawn_world.textures import TILE
from qbheat_mm.errors import UserError

SIZE = 128


@pytest.fixture(scope='module')
def bank():
    return TextureBank(tiles=40)


@pytest.fixture(scope='module')
def images(bank):
    """240 images, the categories in turn."""
    return np.stack([
        classification_scene(np.random.default_rng([0, i]), bank,
                             i % len(CLASSES), SIZE).image
        for i in range(240)
    ])


def test_a_scene_depends_on_its_generator_alone(bank):
    first, second, other = (
        detection_scene(np.random.default_rng(seed), bank, SIZE)
        for seed in (3, 3, 4))
    assert np.array_equal(first.image, second.image)
    assert first.boxes == second.boxes and first.labels == second.labels
    assert not np.array_equal(first.image, other.image)
    again = classification_scene(np.random.default_rng(3),
                                 TextureBank(tiles=40), 0, SIZE)
    assert np.array_equal(again.image, classification_scene(
        np.random.default_rng(3), bank, 0, SIZE).image)


def test_boxes_hold_the_objects_tightly(bank):
    boxes = 0
    for seed in range(60):
        scene = detection_scene(np.random.default_rng(seed), bank, SIZE)
        assert len(scene.boxes) == len(scene.labels)
        assert scene.image.shape == (SIZE, SIZE, 3)
        for (left, top, right, bottom) in scene.boxes:
            assert 0 <= left < right <= SIZE and 0 <= top < bottom <= SIZE
            assert min(right - left, bottom - top) > 0.04 * SIZE
            boxes += 1
    assert boxes > 90


@pytest.mark.parametrize('label', range(len(CLASSES)))
def test_objects_fit_into_their_circle(label):
    for seed in range(20):
        parts = draw_parts(np.random.default_rng(seed), label)
        corners = np.concatenate([c for part in parts for c in part])
        assert np.hypot(*corners.T).max() < 1.2
        thing = Thing(parts, np.array([64., 64.]), 40.)
        area = (thing.mask((0, 0, 128, 128)) > 127).sum()
        assert area > 0.1 * 40**2


def luminance(images):
    """RGB images (N, S, S, 3) as grey ones (N, S, S)."""
    return images @ np.array([0.299, 0.587, 0.114])


def spectral_slope(images):
    """Exponent of the power spectrum of (N, S, S) over frequency."""
    size = images.shape[-1]
    window = np.outer(np.hanning(size), np.hanning(size))
    centered = images - images.mean(axis=(1, 2), keepdims=True)
    power = (np.abs(np.fft.fft2(centered * window))**2).mean(axis=0)
    frequency = np.hypot(*np.meshgrid(*[size * np.fft.fftfreq(size)] * 2))
    rings = np.arange(4, size // 4 + 1)
    values = [power[np.abs(frequency - ring) < 0.5].mean() for ring in rings]
    return np.polyfit(np.log(rings), np.log(values), 1)[0]


def flat_share(images):
    """Share of 16 x 16 patches with a deviation below 4 gray levels."""
    patches = images.reshape(len(images), SIZE // 16, 16, SIZE // 16, 16)
    return (patches.std(axis=(2, 4)) < 4).mean()


def test_color_and_texture_statistics_do_not_tell_the_class(images):
    pixels = images.astype(np.float64).reshape(len(images), -1, 3)
    differences = np.abs(np.diff(luminance(images), axis=2))
    features = np.concatenate([
        pixels.mean(1), pixels.std(1),
        np.quantile(differences.reshape(len(images), -1), (.5, .9, .99),
                    axis=1).T], axis=1)
    labels = np.arange(len(images)) % len(CLASSES)
    score = cross_val_score(
        make_pipeline(StandardScaler(), LogisticRegression(C=0.1)), features,
        labels, cv=5).mean()
    assert score < 1 / len(CLASSES) + 0.08


def test_images_resemble_photographs(images):
    grey = luminance(images)
    # Natural images: about -2, from -1.6 to -3 between single images (van
    # der Schaaf and van Hateren, Vision Research 1996).
    assert -3 < spectral_slope(grey) < -1.8
    # Nearly every patch has something to predict.
    assert flat_share(grey) < 0.05
    # in color
    assert (images.max(axis=3).astype(int) - images.min(axis=3)).mean() > 15


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
    def surface(rng, height, width, below=None):
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


def test_pictures_of_the_demo_stay_as_they_are():
    """Its table is in the README."""
    bank = TextureBank()
    digest = hashlib.sha256()
    for i in range(4):
        for scene in (
                classification_scene(np.random.default_rng([0, 0, i]), bank,
                                     i, SIZE),
                detection_scene(np.random.default_rng([0, 2, i]), bank, SIZE)):
            digest.update(scene.image.tobytes())
    assert digest.hexdigest()[:16] == 'd9f18f8495cde89a'


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
