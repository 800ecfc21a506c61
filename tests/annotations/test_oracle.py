# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What is prepared is exactly what the export states.

Random truths are written in every form and prepared. ``ORACLE_EXPORTS=300``
draws as many exports of each form.
"""
import os

import numpy as np
import pytest
from PIL import Image, ImageOps

from qbheat_mm.apis import prepare_boxes, prepare_classes
from qbheat_mm.errors import UserError

from .oracle import forms_classes, forms_coco, forms_files, forms_yolo
from .oracle.read_back import (
    assert_equal_boxes,
    expected_boxes,
    read_boxes,
    read_classes,
)
from .oracle.truth import Photo, draw_truth, fingerprint

EXPORTS = int(os.environ.get('ORACLE_EXPORTS', 6))
BOXES = {**forms_coco.FORMS, **forms_yolo.FORMS, **forms_files.FORMS}
CLASSES = forms_classes.FORMS


@pytest.mark.parametrize('seed', range(EXPORTS))
@pytest.mark.parametrize('form', BOXES)
def test_boxes(form, seed, tmp_path):
    write, features = BOXES[form]
    truth = draw_truth(seed, features)
    write(truth, tmp_path / 'export', np.random.default_rng(seed))
    options = {}
    if truth.boxes_on:
        options['boxes_on'] = truth.boxes_on
    report = prepare_boxes(
        str(tmp_path / 'export'), str(tmp_path / 'out'), **options)
    # Validation images are chosen unless the export has some.
    given = 'val' in truth.splits
    assert_equal_boxes(
        expected_boxes(truth), read_boxes(tmp_path / 'out'), given)
    lost = [photo for photo in truth.photos if photo.missing]
    if features.listed:  # else, a lost negative leaves no trace
        assert report.account.skipped('images') == len(lost)
    assert report.account.skipped('boxes') == sum(
        len(photo.targets) for photo in lost)


@pytest.mark.parametrize('seed', range(EXPORTS))
@pytest.mark.parametrize('form', CLASSES)
def test_classes(form, seed, tmp_path):
    write, features = CLASSES[form]
    truth = draw_truth(seed, features)
    written = write(truth, tmp_path / 'export', np.random.default_rng(seed))
    options = {}
    if written.images:
        options['images'] = str(written.images)
    try:
        report = prepare_classes(
            str(written.source), str(tmp_path / 'out'), **options)
    except UserError as error:
        assert written.ambiguous, error
        assert '\n' not in str(error)
        assert all(word in str(error) for word in written.ambiguous), error
        assert not (tmp_path / 'out').exists()
        return
    assert not written.wrong
    given = 'val' in truth.splits
    expected = set()
    for photo in truth.photos:
        if not photo.missing:
            expected.add((photo.split if given else '',
                          fingerprint(photo.file), photo.targets[0].label))
    found = read_classes(tmp_path / 'out')
    assert len(found) == len(expected)
    assert expected == {(triple.split if given else '', *triple[1:3])
                        for triple in found}
    lost = len(truth.photos) - len(expected)
    assert report.account.skipped('images') == lost


def test_boxes_on_stored_pixels_hold_the_same_pixels(tmp_path):
    """The oracle's own EXIF: a stated box shows what the upright one does."""
    for orientation in range(1, 9):
        pixels = np.random.default_rng(0).integers(
            0, 255, (30, 40, 3), np.uint8)
        photo = Photo('', 'a.png', pixels, orientation, stored=True)
        photo.write(tmp_path / f'{orientation}.png')
        with Image.open(photo.file) as image:
            stored = np.asarray(image)
            upright = np.asarray(ImageOps.exif_transpose(image))
        assert (upright == pixels).all()
        x, y, w, h = map(int, photo.state_box((4, 6, 20, 11)))
        part = stored[y:y + h, x:x + w]
        assert sorted(part.reshape(-1, 3).tolist()) == sorted(
            pixels[6:17, 4:24].reshape(-1, 3).tolist())
