# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The data of a configuration are counted, and faults told, beforehand."""
import json
import math
import runpy
import shutil
import struct
import sys

import pytest
from PIL import Image

from .conftest import ROOT


@pytest.fixture
def own(tmp_path, data):
    """A copy of the data that may be changed."""
    root = tmp_path / 'own'
    shutil.copytree(data / 'images', root / 'images')
    shutil.copy(data / 'coco.json', root)
    return root


@pytest.fixture
def use(monkeypatch, capsys, data, own):
    """Run the tool on the copy; return what it prints and its status."""

    def use(config, *args):
        options = ['--cfg-options', *(
            f'{part}_dataloader.dataset.data_root={own}'
            for part in ('train', 'val', 'test'))]
        monkeypatch.setattr(
            sys, 'argv', ['check_data.py', str(config), *args, *options])
        status = 0
        try:
            runpy.run_path(str(ROOT / 'tools/check_data.py'),
                           run_name='__main__')
        except SystemExit as end:
            status = end.code
        return capsys.readouterr().out, status

    return use


@pytest.fixture
def detector(detector_config):
    pytest.importorskip('mmdet')
    return detector_config


def change(own, change):
    content = json.loads((own / 'coco.json').read_text())
    change(content)
    (own / 'coco.json').write_text(json.dumps(content))


@pytest.mark.parametrize('deep', [(), ('--deep', )])
def test_boxes_are_counted(use, detector, deep):
    printed, status = use(detector, *deep)
    assert status == 0
    assert '4 images, 0 of them without boxes; 4 of 4 boxes' in printed
    assert 'a: 2\n' in printed and 'b: 2\n' in printed
    assert '4 of 4 images of val are trained on, too' in printed


def test_what_costs_a_box_is_a_warning(use, own, detector):
    change(own, lambda content: content['annotations'][0].update(
        bbox=[4, 4, 0, 16]))
    printed, status = use(detector)
    assert status == 0
    assert ('warning: 1 of 4 boxes have no width or no height (as annotation '
            "id 1 of image id 0, '0.jpg' of 32x32: bbox=[4, 4, 0, 16]); "
            'left out') in printed
    assert '3 of 4 boxes' in printed


def test_what_makes_the_set_useless_stops(use, own, detector):
    change(own, lambda content: [each.update(category_id='x')
                                 for each in content['annotations']])
    printed, status = use(detector)
    assert 'stops: 4 of 4 boxes cannot be used' in printed
    assert status.startswith("error: annotation file '")
    (own / 'coco.json').write_text('{"images": [')
    assert 'is cut: it ends in the middle' in use(detector)[1]


def test_names_of_classes_are_compared(use, own, detector, tmp_path):
    change(own, lambda content: content['categories'][0].update(name='tea'))
    assert "['tea', 'b']; the classes are 2, ['a', 'b']" in use(detector)[1]
    names, named = tmp_path / 'names.txt', tmp_path / 'named.py'
    names.write_text('tea\nb\n')
    named.write_text(detector.read_text() + f"""
for _loader in (train_dataloader, val_dataloader, test_dataloader):
    _loader['dataset']['metainfo'] = dict(classes={str(names)!r})
""")
    printed, status = use(named)
    assert status == 0 and 'tea: 2\n' in printed and 'b: 2\n' in printed
    for content in ('tea\nb\n\n', '\ufefftea\nb\n', b't\xe9\nb\n'):
        names.write_bytes(content if isinstance(content, bytes)
                          else content.encode())
        assert f"metainfo.classes='{names}' must be a text" in use(named)[1]


def test_pictures_are_opened(use, own, detector):
    Image.new('RGB', (48, 32)).save(own / 'images/a/1.jpg')
    _, status = use(detector)
    assert "'1.jpg', 32x32 in the file and 48x32 when loaded" in status
    content = (own / 'images/a/0.jpg').read_bytes()
    (own / 'images/a/1.jpg').write_bytes(content[:len(content) // 2])
    printed, status = use(detector, '--deep')
    assert '1 of 4 images cannot be used' in printed and '1.jpg' in status


@pytest.mark.parametrize('orientation, declared, color_type, words', [
    (6, (48, 32), None, 'stops: 1 of 4 images have another size'),
    (6, (32, 48), None, '1 of 4 images are turned or mirrored when loaded'),
    (3, (48, 32), None, '1 of 4 images are turned or mirrored when loaded'),
    (6, (48, 32), 'color_ignore_orientation', 'nothing stops'),
    (6, (32, 48), 'color', 'nothing stops'),
    (6, (48, 32), 'color', 'stops: 1 of 4 images have'),
    (6, (32, 48), 'color_ignore_orientation', 'stops: 1 of 4 images have'),
    (1, (48, 32), None, 'nothing stops'),
])
def test_what_exif_turns_is_told(use, own, detector, tmp_path, orientation,
                                 declared, color_type, words):
    exif = Image.Exif()
    exif[274] = orientation
    Image.linear_gradient('L').resize((48, 32)).convert('RGB').save(
        own / 'images/a/1.jpg', exif=exif)
    change(own, lambda content: content['images'][1].update(
        width=declared[0], height=declared[1]))
    config = tmp_path / 'detector.py'
    loader = "dict(type='LoadNamedImageFromFile'"
    config.write_text(detector.read_text().replace(
        loader, f'{loader}, color_type={color_type!r}'))
    printed, status = use(config)
    assert words in printed
    assert bool(status) == ('stops: ' in printed)
    assert ('turned or mirrored' in printed) == ('turned' in words)


def test_folders_are_counted(use, own, classifier_config):
    Image.new('RGB', (9, 9)).save(own / 'images/a/x.gif')
    (own / 'images/c').mkdir()
    (own / 'images/c/notes.txt').write_text('no image')
    printed, status = use(classifier_config)
    assert status == 0
    assert 'a: 4\n' in printed or 'a: 5\n' in printed  # gif read or named
    assert 'b: 4\n' in printed
    assert "1 of 3 classes have no image (as ['c'])" in printed
    if 'a: 4\n' in printed:
        assert 'files of pictures are not read: 1 .gif' in printed


@pytest.mark.parametrize('deep', [(), ('--deep', )])
def test_pictures_that_are_no_files_are_counted(
        use, own, classifier_config, tmp_path, deep):
    """As those of MNIST, written here in its format."""
    for split in ('train', 't10k'):
        for name, magic, shape in (('images-idx3', 2051, (6, 4, 4)),
                                   ('labels-idx1', 2049, (6, ))):
            (own / f'{split}-{name}-ubyte').write_bytes(
                struct.pack(f'>{1 + len(shape)}i', magic, *shape)
                + bytes(i % 2 for i in range(math.prod(shape))))
    config = tmp_path / 'classifier.py'
    config.write_text(classifier_config.read_text() + """
for loader in (train_dataloader, val_dataloader):
    loader['dataset'] = dict(type='MNIST', download=False, pipeline=[])
""")
    printed, status = use(config, *deep)
    assert status == 0, status
    assert '6 images in 10 classes' in printed and '0 - zero: 3\n' in printed
    assert 'not read' not in printed


def test_damaged_files_of_a_folder_are_named(use, own, classifier_config):
    (own / 'images/a/0.jpg').write_bytes(b'no image')
    assert use(classifier_config)[1] == 0
    _, status = use(classifier_config, '--deep')
    assert status.startswith("error: data of '") and '0.jpg' in status
    assert '1 of 8 images cannot be read' in status


def test_files_of_a_folder_are_opened_as_training_does(
        use, own, classifier_config, tmp_path):
    (own / 'images/a/0.jpg').write_bytes(b'no image')
    config = tmp_path / 'classifier.py'
    config.write_text(classifier_config.read_text() + """
train_dataloader['dataset'] = dict(dataset, pipeline=[
    dict(type='LoadNamedImageFromFile', ignore_empty=True),
    *dataset['pipeline'][1:]])
""")
    printed, status = use(config, '--deep')
    # It is skipped in training, not in validation.
    assert 'warning: 1 of 8 images cannot be read and are skip' in printed
    assert 'stops: 1 of 8 images cannot be read' in printed and status


def test_one_image_is_too_few_to_train_on(use, own, classifier_config):
    first, *others = sorted((own / 'images').rglob('*.jpg'))
    for path in others:
        path.unlink()
    status = use(classifier_config)[1]
    assert 'at least 2 images' in status


def test_an_empty_folder_and_a_missing_one(use, own, classifier_config):
    shutil.rmtree(own / 'images')
    assert 'No such file' in use(classifier_config)[1]
    (own / 'images/a').mkdir(parents=True)
    status = use(classifier_config)[1]
    assert status.startswith('error: ') and str(own) in status
