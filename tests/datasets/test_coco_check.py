# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Annotation files are used as they say, or their faults are named."""
import json

import numpy as np
import pytest
from PIL import Image

from qbheat_mm.datasets.coco_check import (
    CocoReport,
    check_coco,
    check_images,
    check_masks,
    read_coco,
)
from qbheat_mm.errors import UserError

CLASSES = ['cup', 'fork']


def sound():
    """Four images of 100x80 with two boxes each."""
    return dict(
        images=[dict(id=i, file_name=f'{i}.png', width=100, height=80)
                for i in range(4)],
        annotations=[
            dict(id=i, image_id=i // 2, category_id=1 + i % 2,
                 bbox=[10, 10 + i, 60, 40], area=2400, iscrowd=0,
                 segmentation=[[10, 10, 70, 10, 70, 50]])
            for i in range(8)],
        categories=[dict(id=1, name='cup'), dict(id=2, name='fork')])


@pytest.fixture
def check(tmp_path):
    """Check a file: its content and report."""

    def check(content, masks=False, **kwargs):
        path = tmp_path / 'a.json'
        path.write_text(json.dumps(content))
        found = read_coco(str(path), masks)
        report = check_coco(found, str(path), CLASSES, **kwargs)
        if masks and not report.errors:
            check_masks(found, report)
        return found, report

    return check


def test_a_sound_file(check):
    content, report = check(sound())
    assert not report.errors and not report.warnings
    assert report.per_class == dict(cup=4, fork=4)
    # COCO's evaluation takes an id of 0 for "no match".
    assert [a.id for a in content.annotations] == [*range(1, 9)]


@pytest.mark.parametrize('content, words', [
    (b'', 'truncated'), (b'{"images": [', 'truncated'), (b'[]', 'object'),
    (json.dumps(sound()).encode('utf-16'), 'malformed'),
    (b'{"images": [], "annotations": []}', 'categories'),
])
def test_other_files_are_refused(tmp_path, content, words):
    path = tmp_path / 'a.json'
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"a.json' .*{words}"):
        read_coco(str(path))


def test_a_byte_order_mark_is_read(tmp_path):
    path = tmp_path / 'a.json'
    path.write_text(json.dumps(sound()), encoding='utf-8-sig')
    assert len(read_coco(str(path)).images) == 4


@pytest.mark.parametrize('key, name, value', [
    ('annotations', 'image_id', None), ('annotations', 'category_id', '1'),
    ('annotations', 'bbox', [1, 2, 3]), ('annotations', 'bbox', 'box'),
    ('images', 'width', '100'), ('images', 'file_name', 3),
    ('categories', 'name', None), ('categories', 'id', 1.5),
])
def test_values_of_other_types_are_located(check, key, name, value):
    content = sound()
    content[key][1][name] = value
    with pytest.raises(UserError, match=rf'at `\$\.{key}\[1\]\.{name}'):
        check(content)


def rename(content):
    content['categories'][0]['name'] = 'horse'


def duplicate(key):
    def change(content):
        content[key][1]['id'] = content[key][0]['id']
    return change


def corners(content):
    for a in content['annotations']:
        a['bbox'] = [50, 40, 95, 75]


def fractions(content):
    for a in content['annotations']:
        a['bbox'] = [.1, .1, .6, .5]


def larger_picture(content):
    for a in content['annotations']:
        a['bbox'] = [150, 140, 60, 40]


def crowds(content):
    for a in content['annotations']:
        a['iscrowd'] = 1


def update(key, **values):
    def change(content):
        content[key][0].update(values)
    return change


@pytest.mark.parametrize('change, words', [
    (rename, 'horse.*set metainfo.classes'),
    (duplicate('images'), 'images have the id 0'),
    (duplicate('categories'), 'categories have the id 1'),
    (corners, 'are corners'), (fractions, 'are fractions'),
    (larger_picture, 'reach past their image'), (crowds, 'are crowds'),
    (update('annotations', category_id=0), 'category_id=0'),
    (update('images', height=0), 'height=0'),
    (update('images', id='x'), 'some image ids are text'),
    (lambda content: content.update(annotations=[]), 'no boxes'),
    (lambda content: content.update(images=[]), "'images' is empty"),
])
def test_useless_files_stop(check, change, words):
    content = sound()
    change(content)
    report = check(content)[1]
    with pytest.raises(UserError, match=f"a.json': .*{words}"):
        report.require()


@pytest.mark.parametrize('change, trained, evaluated', [
    (dict(image_id=99), 7, 7), (dict(bbox=[200, 10, 60, 40]), 7, 7),
    (dict(bbox=[10, 10, -6, 40]), 7, 7), (dict(bbox=[10, 10, 0, 40]), 7, 8),
    (dict(bbox=[10, 10, .5, 40]), 7, 8), (dict(area=0), 7, 8),
    (dict(ignore=1), 7, 8), (dict(iscrowd=1), 7, 8)])
def test_unusable_boxes_are_left_out_and_counted(check, change, trained,
                                                 evaluated):
    content = sound()
    content['annotations'][0].update(change)
    found, report = check(content)
    assert not report.errors
    assert sum(report.per_class.values()) == trained
    assert len(found.annotations) == evaluated
    if 'iscrowd' not in change:
        assert any(line.startswith('1 of 8 boxes')
                   for line in report.warnings)


def test_missing_values_are_filled(check):
    content = sound()
    for a in content['annotations']:
        del a['area'], a['iscrowd'], a['id']
    found, report = check(content)
    assert not report.errors and not report.warnings
    assert {(a.area, a.iscrowd) for a in found.annotations} == {(2400., 0)}


def test_classes_in_another_order_or_a_subset(check):
    content = sound()
    content['categories'].reverse()
    report = check(content)[1]
    assert not report.errors and 'another order' in report.warnings[0]
    content['categories'].append(dict(id=3, name='knife'))
    content['annotations'][0]['category_id'] = 3
    assert 'allow_subset=True' in check(content)[1].errors[0]
    report = check(content, allow_subset=True)[1]
    assert not report.errors and report.per_class == dict(cup=3, fork=4)


RLE = dict(counts=[0, 8000], size=[80, 100])


@pytest.mark.parametrize('mask', [
    None, [], [[1, 2, 3, 4]], [[1, 1, 20, 1, 1]], dict(RLE, size=[100, 80]),
    dict(RLE, counts=[0, 5]), dict(RLE, counts=None), {}])
def test_objects_without_a_readable_mask_are_ignored(check, mask):
    content = sound()
    content['annotations'][1]['segmentation'] = mask
    found, report = check(content, masks=True)
    assert [a.iscrowd for a in found.annotations] == [0, 1] + 6 * [0]
    assert len(found.annotations[1].segmentation[0]) == 8
    assert '1 of 8 objects have no readable segmentation' in (
        report.warnings[0])


def test_readable_masks_stay(check):
    content = sound()
    content['annotations'][0]['segmentation'] = RLE
    content['annotations'][1]['segmentation'].append([1, 2])
    found, report = check(content, masks=True)
    assert not report.warnings
    assert found.annotations[0].segmentation == RLE
    assert len(found.annotations[1].segmentation) == 1


def check_files(folder, **kwargs):
    report = CocoReport('a.json')
    content = sound()
    path = folder / 'a.json'
    path.write_text(json.dumps(content))
    check_images(read_coco(str(path)).images, str(folder), report, **kwargs)
    return report


def test_images_are_compared_with_the_file(tmp_path):
    for i in range(4):
        Image.new('RGB', (100, 80)).save(tmp_path / f'{i}.png')
    assert check_files(tmp_path) == CocoReport('a.json')
    Image.new('RGB', (80, 100)).save(tmp_path / '1.png')
    assert '80x100 pixels, but the file says 100x80' in check_files(
        tmp_path).errors[0]
    (tmp_path / '1.png').write_bytes(b'no image')
    assert "1.png' cannot be read" in check_files(tmp_path).errors[0]
    (tmp_path / '1.png').unlink()
    report = check_files(tmp_path)
    assert '1 of 4 images are missing' in report.errors[0]
    report = check_files(tmp_path, skip_missing=True)
    assert not report.errors and '1.png' in report.warnings[0]


@pytest.mark.parametrize('orientation, size, use_exif, fits', [
    (6, (80, 100), True, True), (6, (100, 80), True, False),
    (6, (100, 80), False, True), (3, (100, 80), True, True)])
def test_exif_rotation(tmp_path, orientation, size, use_exif, fits):
    exif = Image.Exif()
    exif[0x0112] = orientation
    for i in range(4):
        Image.new('RGB', size).save(tmp_path / f'{i}.png', exif=exif)
    report = check_files(tmp_path, use_exif=use_exif)
    assert bool(report.errors) != fits
    assert bool(report.warnings) == (fits and use_exif)


def test_decoding_every_image(tmp_path):
    for i in range(4):
        Image.new('RGB', (100, 80)).save(tmp_path / f'{i}.png')
    seen = []

    def read(path):
        seen.append(path)
        return np.zeros((80, 100, 3))

    assert not check_files(tmp_path, read=read).errors
    assert len(seen) == 4
