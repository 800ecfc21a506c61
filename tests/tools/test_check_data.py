# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Data are counted and their faults reported before training."""
import json
import os
import shutil

import cv2
import numpy as np
import pytest

from ..helpers.tools import run_tool


@pytest.fixture
def own(tmp_path, data):
    """A copy of the data that may be changed."""
    root = tmp_path / 'own'
    shutil.copytree(data / 'images', root / 'images')
    shutil.copy(data / 'coco.json', root)
    return root


@pytest.fixture
def check(capsys, own):
    """Run the tool on the copy; return its output and status."""

    def check(config, *args):
        options = ['--cfg-options', *(
            f'{part}_dataloader.dataset.data_root={own}'
            for part in ('train', 'val', 'test'))]
        status = 0
        try:
            run_tool('check_data.py', config, *args, *options)
        except SystemExit as end:
            status = end.code
        return capsys.readouterr().out, status

    return check


@pytest.fixture
def detector(detector_config):
    pytest.importorskip('mmdet')
    return detector_config


def change(own, function):
    content = json.loads((own / 'coco.json').read_text())
    function(content)
    (own / 'coco.json').write_text(json.dumps(content))


@pytest.mark.parametrize('deep', [(), ('--deep', )])
def test_boxes_are_counted(check, detector, deep):
    printed, status = check(detector, *deep)
    assert status == 0
    assert '4 images (0 without boxes), 4 of 4 boxes used' in printed
    assert 'a: 2\n' in printed and 'b: 2\n' in printed
    assert '4 of 4 images of val are also in train' in printed


def test_a_lost_box_is_a_warning(check, own, detector):
    change(own, lambda content: content['annotations'][0].update(
        bbox=[4, 4, 0, 16]))
    printed, status = check(detector)
    assert status == 0 and '3 of 4 boxes used' in printed
    assert 'warning: 1 of 4 boxes (e.g. [4.0, 4.0, 0.0, 16.0]' in printed
    assert 'are thinner than a pixel' in printed


def test_a_useless_file_is_an_error(check, own, detector):
    change(own, lambda content: content['categories'][0].update(name='tea'))
    printed, status = check(detector)
    assert 'error: ' in printed and "['tea', 'b']" in status
    (own / 'coco.json').write_text('{"images": [')
    assert 'coco.json' in check(detector)[1]


def test_copies_under_other_names_are_found(own, classifier_config, tmp_path,
                                            capsys):
    copies = tmp_path / 'copies'
    for label in ('a', 'b'):
        folder = copies / 'images' / label
        folder.mkdir(parents=True)
        for image in (own / 'images' / label).iterdir():
            shutil.copy(image, folder / f'copy of {image.name}')
    white = np.full((32, 32, 3), 255, np.uint8)
    cv2.imwrite(str(copies / 'images/a/new.jpg'), white)
    run_tool('check_data.py', classifier_config, '--cfg-options',
             f'train_dataloader.dataset.data_root={own}',
             f'val_dataloader.dataset.data_root={copies}',
             f'test_dataloader.dataset.data_root={copies}')
    assert '8 of 9 images of val are also in train' in capsys.readouterr().out


def test_damaged_images_are_found(check, own, detector, classifier_config):
    content = (own / 'images/a/0.jpg').read_bytes()
    (own / 'images/a/1.jpg').write_bytes(content[:len(content) // 2])
    for config in (detector, classifier_config):
        printed, status = check(config, '--deep')
        assert '1.jpg' in status


def test_images_of_12_bits_are_named(check, own, classifier_config):
    dark = np.full((32, 32, 3), 4095, np.uint16)
    cv2.imwrite(str(own / 'images/a/dark.png'), dark)
    printed, status = check(classifier_config, '--deep')
    assert status == 0
    assert f"  warning: 16-bit images in '{own}/images/a' are" in printed


def test_classes_that_are_no_text_are_escaped(check, own, classifier_config):
    (own / 'images' / os.fsdecode(b'\xcf\xdd')).mkdir()
    printed, status = check(classifier_config)
    assert status == 0 and '    \\udccf\\udcdd: 0\n' in printed


def test_folders_are_counted(check, own, classifier_config):
    (own / 'images/c').mkdir()
    printed, status = check(classifier_config)
    assert status == 0
    assert 'a: 4\n' in printed and 'b: 4\n' in printed
    assert "classes without an image: ['c']" in printed
