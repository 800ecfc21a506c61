"""Scenes: boxes and what is drawn in them."""
import numpy as np
import pytest

from qbheat_mm.demo import scenes
from qbheat_mm.demo.shapes import CLASSES

SIZE = 128


@pytest.fixture(scope='module')
def photographs():
    return scenes.load_photographs()


@pytest.mark.parametrize('label', range(len(CLASSES)))
def test_the_box_is_tight(label):
    for seed in range(8):
        canvas = np.full((SIZE, SIZE, 3), 100, np.float32)
        rng = np.random.default_rng(seed)
        left, top, right, bottom = scenes.draw_object(
            rng, canvas, label, (60.3, 66.8), rng.uniform(15, 50))
        # Edges fade over a pixel on both sides of the outline.
        rows, columns = np.nonzero((canvas != 100).any(axis=2))
        assert 0 <= left - columns.min() <= 2
        assert 0 <= columns.max() + 1 - right <= 2
        assert 0 <= top - rows.min() <= 2
        assert 0 <= rows.max() + 1 - bottom <= 2


def test_objects_lie_inside_and_apart(photographs):
    counts = set()
    for seed in range(60):
        scene = scenes.detection_scene(
            np.random.default_rng(seed), photographs, SIZE)
        counts.add(len(scene.labels))
        boxes = np.array(scene.boxes)
        assert len(boxes) == len(scene.labels)
        assert (boxes[:, :2] >= 0).all() and (boxes[:, 2:] <= SIZE).all()
        assert (boxes[:, 2:] - boxes[:, :2] >= 16).all()
        assert scene.image.shape == (SIZE, SIZE, 3)
    assert counts == set(range(1, scenes.MAX_OBJECTS + 1))


def test_colours_do_not_tell_the_category(photographs):
    """Mean colour, by the nearest class mean, is no better than chance."""

    def colours(seed):
        rng = np.random.default_rng(seed)
        labels = np.arange(400) % len(CLASSES)
        images = [
            scenes.classification_scene(rng, photographs, label, 64).image
            for label in labels
        ]
        return np.stack([i.mean(axis=(0, 1)) for i in images]), labels

    known, labels = colours(0)
    means = np.stack(
        [known[labels == k].mean(axis=0) for k in range(len(CLASSES))])
    asked, truth = colours(1)
    guess = ((asked[:, None] - means)**2).sum(axis=2).argmin(axis=1)
    assert (guess == truth).mean() < 0.25


def test_a_scene_hangs_on_its_generator_alone(photographs):
    one, other = (
        scenes.detection_scene(np.random.default_rng([3, 1]), photographs,
                               SIZE) for _ in range(2))
    assert (one.image == other.image).all() and one[1:] == other[1:]
