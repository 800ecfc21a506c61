# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Validation has every class, and no scene of the training images."""
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from qbheat_mm.annotations.split import (
    NEAR,
    choose_validation,
    find_scenes,
    perceptual_hash,
    split_scenes,
)
from qbheat_mm.datasets.images import ImageFile
from qbheat_mm.errors import UserError


def hashes(number, seed=0):
    return np.random.default_rng(seed).random((number, 256)) < 0.5


@st.composite
def labeled_scenes(draw):
    """Scenes of images and objects, each class in at least two scenes."""
    number, classes = draw(st.integers(4, 60)), draw(st.integers(1, 5))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    scenes = random.integers(0, draw(st.integers(4, 30)), number)
    scenes[:4] = range(4)
    counts = random.integers(0, 3, (number, classes)) * (
        random.random((number, classes)) < 0.3)
    counts[0] = counts[1] = 1
    return np.unique(scenes, return_inverse=True)[1], counts


@given(labeled_scenes(), st.integers(0, 9))
def test_scenes_stay_whole_and_classes_are_validated(scenes, seed):
    scenes, counts = scenes
    chosen = split_scenes(scenes, counts, 0.2, seed)
    for scene in set(scenes):
        assert len({*chosen[scenes == scene]}) == 1
    assert (counts[chosen].sum(0) > 0).all()
    assert (chosen == split_scenes(scenes, counts, 0.2, seed)).all()


@given(st.integers(0, 20), st.floats(0.1, 0.4))
def test_shares_of_images_and_classes_are_near(seed, share):
    counts = np.random.default_rng(seed).multinomial(
        3, [0.6, 0.3, 0.1], 300)
    chosen = split_scenes(np.arange(300), counts, share, seed)
    assert abs(chosen.mean() - share) < 0.05
    assert np.allclose(counts[chosen].sum(0) / counts.sum(0), share, atol=.06)


def test_frames_and_augmented_copies_are_one_scene():
    files = ['a/cat_mp4-1_jpg.rf.0a1b.jpg', 'a/cat_mp4-2_jpg.rf.99.jpg',
             'a/cat_mp4-2_jpg.rf.77.jpg', 'b/cat_mp4-1.jpg', 'a/dog7.jpg']
    first, second, copy, *others = find_scenes(files, None, 1)
    assert first == second == copy and len({first, *others}) == 3
    scenes = find_scenes(files, None, 50)  # frames apart, copies together
    assert scenes[1] == scenes[2] != scenes[0]


def test_near_duplicates_are_one_scene(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (15, 20, 3), np.uint8)
    image = Image.fromarray(pixels).resize((640, 480))
    image.save(tmp_path / 'a.jpg')
    image.point(lambda x: x * 0.9).save(tmp_path / 'b.jpg', quality=50)
    image.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(tmp_path / 'c.png')
    found = np.array([perceptual_hash(ImageFile(str(tmp_path / name)))
                      for name in ('a.jpg', 'b.jpg', 'c.png')])
    a, b, c = find_scenes(['a', 'b', 'c'], found, 1)
    assert a == b != c


@given(st.integers(0, 99), st.integers(1, 4), st.integers(1, 20),
       st.sampled_from([1, 100, 10_000]))
def test_chains_of_near_duplicates_are_one_scene(seed, origins, step, pairs):
    """Copies of copies, each with more changed bits; some pairs at once."""
    random = np.random.default_rng(seed)
    found = np.repeat(hashes(origins, seed), 12, 0)
    for i in range(len(found)):
        changed = i % 12 * step + np.arange(step)
        found[i:i + 12 - i % 12, changed % 256] ^= True
    order = random.permutation(len(found))
    names = [f'{chr(97 + i)}.jpg' for i in range(len(found))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('qbheat_mm.annotations.split._PAIRS', pairs)
        scenes = find_scenes(names, found[order], 1)
    expected = order // 12 if step <= NEAR else order
    assert len(set(zip(scenes, expected))) == len(set(scenes)) == len(
        set(expected))


@pytest.mark.parametrize('differing', [0, 1])
def test_thousands_of_flat_images_need_little_memory(differing):
    found = np.zeros((8000, 256), bool)
    found[range(8000), np.arange(8000) % 256] = differing
    names = [f'{i}a{"b" * (i % 2)}.jpg' for i in range(8000)]
    tracemalloc.start()
    scenes = find_scenes(names, found, 8000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert not scenes.any() and peak < 100 << 20


@pytest.mark.parametrize('files, kept', [
    ([f'v{i // 10}_{i % 10}.jpg' for i in range(50)], 'videos'),
    ([f'{i}.jpg' for i in range(50)], 'names in a row and near'),
    ([f'{i}.jpg' for i in range(2)], 'names in a row and near')])
def test_scenes_are_cut_only_if_they_must(files, kept):
    chosen, how = choose_validation(
        files, hashes(len(files)), np.ones((len(files), 1), int), ['cat'],
        0.2, 0)
    assert how.startswith(kept) and chosen.any() and not chosen.all()


def test_equal_images_do_not_prevent_a_split():
    chosen, how = choose_validation(
        [f'{i}.jpg' for i in range(20)], np.repeat(hashes(1), 20, 0),
        np.ones((20, 1), int), ['cat'], 0.2, 0)
    assert how == 'names in a row stay together' and chosen.sum() == 4


def test_a_class_in_one_image_is_refused():
    counts = np.ones((9, 2), int)
    counts[1:, 1] = 0
    with pytest.raises(UserError, match="--drop-class 'owl'"):
        choose_validation([f'{i}.jpg' for i in range(9)], hashes(9), counts,
                          ['cat', 'owl'], 0.2, 0)


def test_a_video_is_cut_if_the_rest_is_too_little():
    files = [f'v_{i}.jpg' for i in range(95)] + [f'{i}.jpg' for i in range(5)]
    chosen, _ = choose_validation(
        files, hashes(100), np.ones((100, 1), int), ['cat'], 0.2, 0)
    assert 0.1 <= chosen.mean() <= 0.4
