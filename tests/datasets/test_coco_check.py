# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Annotation files are used as they say, or their faults are named."""
import json

import pytest
from PIL import Image

from qbheat_mm.datasets.coco_check import check_images, load_coco
from qbheat_mm.errors import UserError

from .pictures import turned

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

    def check(content, **kwargs):
        path = tmp_path / 'a.json'
        path.write_text(json.dumps(content))
        return load_coco(str(path), CLASSES, **kwargs)

    return check


def test_a_sound_file(check):
    content, report = check(sound())
    assert not report.warnings
    assert report.per_class == dict(cup=4, fork=4)
    # COCO's evaluation takes an id of 0 for "no match".
    assert [a.id for a in content.annotations] == [*range(1, 9)]


@pytest.mark.parametrize('content, words', [
    (b'', 'truncated'), (b'{"images": [', 'truncated'), (b'[]', 'object'),
    (json.dumps(sound()).encode('utf-16'), 'malformed'),
    (b'{"annotations": []}', 'missing required field `images'),
])
def test_other_files_are_refused(tmp_path, content, words):
    path = tmp_path / 'a.json'
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"a.json': .*{words}"):
        load_coco(str(path))


def test_a_byte_order_mark_is_read(tmp_path):
    path = tmp_path / 'a.json'
    path.write_text(json.dumps(sound()), encoding='utf-8-sig')
    assert len(load_coco(str(path))[0].images) == 4


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


def duplicate(kind, key='id'):
    def change(content):
        content[kind][1][key] = content[kind][0][key]
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
    (corners, 'not corners'), (fractions, 'thinner than a pixel'),
    (larger_picture, 'exceed their image'), (crowds, 'are crowds'),
    (update('annotations', category_id=0), 'category_id=0'),
    (update('images', height=0), r'>= 1 - at `\$\.images\[0\]\.height'),
    (duplicate('categories', 'name'), "have the name 'cup'"),
    (lambda content: content.update(annotations=[]), 'no boxes'),
    (lambda content: content.update(images=[]), 'length >= 1'),
])
def test_useless_files_stop(check, change, words):
    content = sound()
    change(content)
    with pytest.raises(UserError, match=f"a.json': .*{words}"):
        check(content)


@pytest.mark.parametrize('change, trained, evaluated', [
    (dict(image_id=99), 7, 7), (dict(bbox=[200, 10, 60, 40]), 7, 7),
    (dict(bbox=[10, 10, -6, 40]), 7, 7), (dict(bbox=[10, 10, 0, 40]), 7, 8),
    (dict(bbox=[10, 10, .5, 40]), 7, 8), (dict(area=0), 7, 8),
    (dict(bbox=[10, 10, 1, 40]), 8, 8),
    (dict(ignore=1), 7, 8), (dict(iscrowd=1), 7, 8)])
def test_unusable_boxes_are_skipped_and_counted(check, change, trained,
                                                 evaluated):
    content = sound()
    content['annotations'][0].update(change)
    found, report = check(content)
    assert sum(report.per_class.values()) == trained
    assert len(found.annotations) == evaluated
    if trained == 7 and 'iscrowd' not in change:
        assert any(line.startswith('1 of 8 boxes')
                   for line in report.warnings)


def test_missing_values_are_filled(check):
    content = sound()
    for a in content['annotations']:
        del a['area'], a['iscrowd'], a['id']
    found, report = check(content)
    assert not report.warnings
    assert {(a.area, a.iscrowd) for a in found.annotations} == {(2400., 0)}


def test_classes_in_another_order_or_a_subset(check):
    content = sound()
    content['categories'].reverse()
    found, report = check(content)
    assert 'another order' in report.warnings[0]
    assert [each.name for each in found.categories] == CLASSES
    content['categories'].append(dict(id=3, name='knife'))
    content['annotations'][0]['category_id'] = 3
    with pytest.raises(UserError, match='allow_subset=True'):
        check(content)
    found, report = check(content, allow_subset=True)
    assert report.per_class == dict(cup=3, fork=4)
    assert len(found.annotations) == 7


def test_a_few_boxes_may_exceed_their_image(check):
    content = sound()
    content['annotations'][0]['bbox'] = [60, 10, 60, 40]
    assert 'exceed' in check(content)[1].warnings[0]
    # By 1 pixel and 2 % they may all, as annotation tools round.
    for each in content['annotations']:
        each['bbox'] = [-3, 10, 106, 40]
    assert not check(content)[1].warnings
    for each in content['annotations']:
        each['bbox'] = [-3.1, 10, 106, 40]
    with pytest.raises(UserError, match='8 of 8 boxes .* exceed'):
        check(content)


def test_half_of_the_boxes_must_be_usable(check):
    content = sound()
    for each in content['annotations'][:4]:
        each['bbox'][2] = 0
    assert sum(check(content)[1].per_class.values()) == 4
    content['annotations'][4]['bbox'][2] = 0
    with pytest.raises(UserError, match='most boxes cannot be used'):
        check(content)


RLE = dict(counts=[0, 8000], size=[80, 100])


@pytest.mark.parametrize('mask', [
    None, [], [[1, 2, 3, 4]], [[1, 1, 20, 1, 1]], dict(RLE, size=[100, 80]),
    dict(RLE, counts=[0, 5]), dict(RLE, counts=None), {}])
def test_objects_without_a_readable_mask_are_ignored(check, mask):
    content = sound()
    content['annotations'][1]['segmentation'] = mask
    found, report = check(content, require_masks=True)
    assert [a.iscrowd for a in found.annotations] == [0, 1] + 6 * [0]
    assert len(found.annotations[1].segmentation[0]) == 8
    assert '1 of 8 objects have no readable segmentation' in (
        report.warnings[0])


def test_readable_masks_stay(check):
    content = sound()
    content['annotations'][0]['segmentation'] = RLE
    content['annotations'][1]['segmentation'].append([1, 2])
    found, report = check(content, require_masks=True)
    assert not report.warnings
    assert found.annotations[0].segmentation == RLE
    assert len(found.annotations[1].segmentation) == 1


def test_masks_are_optional_unless_required(check):
    content = sound()
    for each in content['annotations']:
        del each['segmentation']
    assert not check(content, masks=True)[1].warnings
    with pytest.raises(UserError, match='no readable segmentation'):
        check(content, require_masks=True)


@pytest.fixture
def check_files(check, tmp_path):
    def check_files(**kwargs):
        content, report = check(sound())
        check_images(content, str(tmp_path), report, **kwargs)
        return report.warnings

    return check_files


def test_images_are_compared_with_the_file(tmp_path, check_files):
    for i in range(4):
        Image.new('RGB', (100, 80)).save(tmp_path / f'{i}.png')
    assert not check_files()
    Image.new('RGB', (80, 100)).save(tmp_path / '1.png')
    with pytest.raises(UserError, match="1.png' has 80x100 .* 100x80"):
        check_files()
    (tmp_path / '1.png').write_bytes(b'no image')
    with pytest.raises(UserError, match="1.png' is not an image"):
        check_files()
    (tmp_path / '1.png').unlink()
    with pytest.raises(UserError, match='1 of 4 images are missing.*1.png'):
        check_files()
    assert '1.png' in check_files(skip_unreadable=True)[0]


@pytest.mark.parametrize('orientation, size, use_exif, fits', [
    (6, (80, 100), True, True), (6, (100, 80), True, False),
    (6, (100, 80), False, True), (3, (100, 80), True, True)])
def test_exif_rotation(tmp_path, check_files, orientation, size, use_exif,
                       fits):
    for i in range(4):
        Image.new('RGB', size).save(
            tmp_path / f'{i}.png', exif=turned(orientation))
    if fits:
        assert bool(check_files(use_exif=use_exif)) == use_exif
    else:
        with pytest.raises(UserError, match='EXIF'):
            check_files(use_exif=use_exif)
