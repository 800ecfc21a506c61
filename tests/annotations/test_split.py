# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Validation has every class, and no scene of the training images."""
import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image
from sklearn.datasets import load_sample_images

from qbheat_mm.annotations import prepare_classes
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
    """Hashes at right angles to each other."""
    random = np.random.default_rng(seed).standard_normal((144, number))
    return np.float32(np.linalg.qr(random)[0].T)


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


def photographs():
    """Twelve parts of scikit-learn's photographs, and their copies."""
    for image in load_sample_images().images:
        for i in range(6):
            top, left = 210 * (i % 2), 210 * (i // 2)
            photo = Image.fromarray(image[top:top + 210, left:left + 210])
            yield photo, f'{i}.png', {}
            for part in (2, 3, 4):
                size = (210 // part, 210 // part)
                yield (photo.resize(size, Image.Resampling.LANCZOS),
                       f'{i}_{part}.jpg', dict(quality=75))
            yield photo.resize((300, 300)), f'{i}_large.jpg', {}
            for quality in (30, 90):
                yield photo, f'{i}_{quality}.jpg', dict(quality=quality)
            yield photo.point(lambda x: x * 0.9), f'{i}_dark.png', {}


def test_copies_of_any_size_and_quality_are_near_duplicates(tmp_path):
    found = []
    for photo, name, options in photographs():
        photo.save(tmp_path / name, **options)
        found.append(perceptual_hash(ImageFile(str(tmp_path / name))))
    names = [f'{"abcdefgh"[i % 8]}{i}' for i in range(len(found))]
    scenes = find_scenes(names, np.array(found), len(found))
    assert len(found) == 96
    assert (scenes.reshape(12, 8) == scenes[::8, None]).all()
    assert len(set(scenes)) == 12


def test_photos_and_their_small_copies_are_in_one_split(tmp_path):
    """With the noise of a camera on a plain background, all in one folder."""
    random = np.random.default_rng(0)
    for i in range(20):
        pixels = random.integers(60, 200, 3) + random.normal(
            0, 12, (80, 96, 3))
        y, x = random.integers(0, 50, 2)
        pixels[y:y + 25, x:x + 25] = random.integers(0, 255, 3)
        photo = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
        folder = tmp_path / 'photos' / 'ab'[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        photo.save(folder / f'{i:02}_original.jpg')
        for side in (48, 64):
            small = photo.copy()
            small.thumbnail((side, side))
            small.save(folder / f'{i:02}_{"xy"[side > 50]}.jpg', quality=75)
    prepare_classes(str(tmp_path / 'photos'), str(tmp_path / 'out'))
    splits = {}
    for path in (tmp_path / 'out').rglob('*.jpg'):
        splits.setdefault(path.name[:2], []).append(path.parts[-3])
    assert len(splits) == 20
    for parts in splits.values():
        assert len(parts) == 3 and len(set(parts)) == 1


@given(st.integers(0, 99), st.integers(1, 4), st.floats(0.1, 2),
       st.sampled_from([1, 100, 10_000]))
def test_chains_of_near_duplicates_are_one_scene(seed, origins, step, pairs):
    """Copies of copies, each further from the first; some pairs at once."""
    assume(abs(step - 1) > 0.01)
    angle = np.arccos(1 - step * NEAR / 2)
    found = []
    for first, other in hashes(2 * origins, seed).reshape(origins, 2, -1):
        for i in range(12):
            found.append(np.cos(i * angle) * first + np.sin(i * angle) * other)
    order = np.random.default_rng(seed).permutation(len(found))
    names = [f'{chr(97 + i)}.jpg' for i in range(len(found))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('qbheat_mm.annotations.split._PAIRS', pairs)
        scenes = find_scenes(names, np.float32(found)[order], 1)
    expected = order // 12 if step <= 1 else order
    assert len(set(zip(scenes, expected))) == len(set(scenes)) == len(
        set(expected))


@pytest.mark.parametrize('differing', [0, 0.1])
def test_thousands_of_flat_images_need_little_memory(differing):
    found = np.zeros((8000, 144), np.float32)
    found[range(8000), np.arange(8000) % 144] = differing
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
