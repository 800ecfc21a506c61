# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Size and length of training follow from the images and boxes."""
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qbheat_mm.annotations.records import Box, ListedImage
from qbheat_mm.annotations.training_plan import plan_training


def image(size, side):
    """An image with a square box."""
    return ListedImage('', '', [Box(label='a', bbox=[0, 0, side, side])],
                       size=size)


def plan(size, side, number=100, **options):
    return plan_training([image(size, side)] * number, 20,
                         **dict(dict(has_gpu=False), **options))


@pytest.mark.parametrize('size, side, scale, small_box', [
    ((200, 200), 25, (256, 256), 32),  # enlarged, since boxes are small
    ((200, 200), 100, (200, 200), 100),  # enlarged for nothing otherwise
    ((640, 480), 320, (320, 240), 160),  # not below 256x256
    ((7680, 5120), 1000, (320, 213), 42),
    ((640, 640), 27, (640, 640), 27),  # as much as is allowed
    ((480, 640), 42, (512, 384), 34),  # upright
    ((100, 100), 4, (224, 224), 9)])  # twice as large, in steps of 32
def test_size(size, side, scale, small_box):
    found = plan(size, side)
    assert found.scale == scale
    assert round(found.small_box) == small_box


@given(st.integers(1, 9000), st.integers(1, 9000), st.integers(1, 9000),
       st.booleans())
def test_images_are_never_enlarged_without_need(width, height, side, has_gpu):
    found = plan((width, height), min(side, width, height), 1,
                 has_gpu=has_gpu)
    longer, shorter = found.scale
    needs_more = min(side, width, height) < 32
    assert longer <= max(width, height) or needs_more
    assert longer <= 2 * max(width, height) + 32
    # The longer side is rounded up to a multiple of 32.
    budget = 1333 * 800 if has_gpu else 640 * 640
    assert shorter * (longer - 32) <= 1.1 * budget
    assert 1 <= found.anchor_scale <= 4


def test_a_chosen_size():
    assert plan((640, 480), 42, longer_side=800).scale == (800, 600)


@pytest.mark.parametrize('number, has_gpu, steps', [
    (1, False, 600), (1000, False, 1500), (10000, False, 2000),
    (10000, True, 15000)])
def test_length(number, has_gpu, steps):
    assert plan((64, 64), 32, number, has_gpu=has_gpu).steps == steps


@pytest.mark.parametrize('val_images, evaluations', [
    (1, 4), (480, 4), (960, 2), (10**5, 1)])
def test_evaluations_fit_in(val_images, evaluations):
    found = plan_training([image((64, 64), 32)], val_images, False)
    assert -(-found.steps // found.val_interval) == evaluations


def test_a_tenth_of_tiny_boxes_count():
    """But not one of a hundred."""
    images = [image((640, 640), 100)] * 90 + [image((640, 640), 30)] * 10
    assert round(plan_training(images, 9, False).small_box) == 30
    images = [image((640, 640), 100)] * 99 + [image((640, 640), 3)]
    assert plan_training(images, 9, False).scale == (256, 256)


def test_without_boxes():
    empty = ListedImage('', '', [], size=(640, 480))
    assert plan_training([empty], 1, False).scale == (320, 240)
