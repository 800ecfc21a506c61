# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What boxes become: rotated, grouped, swapped, stored, with masks."""
import json

import numpy as np
import pytest
from PIL import Image

from qbheat_mm.annotations.images import _turn_points
from qbheat_mm.annotations.records import ListedImage
from qbheat_mm.datasets.coco_check import load_coco
from qbheat_mm.datasets.images import ImageFile
from qbheat_mm.errors import UserError

from ..helpers.exports import (
    HEIGHT,
    NAMES,
    WIDTH,
    coco,
    number_box,
    prepare,
    read_content,
    rectangle,
    words,
    write_each,
    write_json,
    write_labelme,
    write_numbered,
    write_voc,
)

#: A box of 20x10 pixels around (30, 25), turned by a quarter, is 10x20.
TURNED = ('cat', 25.0, 15.0, 10.0, 20.0)


def write_rotated(form, root):
    """Write an export with one box that is turned by 90 degrees."""
    if form == 'cvat':
        content = coco(NAMES, licenses=[dict(name='', id=0, url='')])
        content['annotations'][0] |= dict(
            bbox=[20, 20, 20, 10], attributes=dict(rotation=90.0))
        write_json(root / 'annotations/instances_default.json', content)
    elif form in ('roLabelImg', 'cvat-voc'):
        write_each('voc', root)
        write_voc(root / 'a.xml', 'a.jpg', 0, '<object><name>cat</name>' + (
            '<robndbox><cx>30</cx><cy>25</cy><w>20</w><h>10</h>'
            f'<angle>{np.pi / 2}</angle></robndbox></object>'
            if form == 'roLabelImg' else
            '<bndbox><xmin>20</xmin><ymin>20</ymin><xmax>40</xmax>'
            '<ymax>30</ymax></bndbox><attributes><attribute><name>rotation'
            '</name><value>90</value></attribute></attributes></object>'))
    elif form == 'labelme':
        write_each('labelme', root)
        write_labelme(root / 'a.json', 'a.jpg', [dict(
            points=[[35, 15], [35, 35], [25, 35], [25, 15]],
            shape_type='rotation')])
    else:
        write_each('yolo', root)
        # The box of a diamond.
        (root / 'a.txt').write_text('0 ' + ' '.join(
            str(x / side) for x, side in zip(
                (30, 15, 35, 25, 30, 35, 25, 25), 4 * (WIDTH, HEIGHT))))


@pytest.mark.parametrize('form', [
    'cvat', 'cvat-voc', 'roLabelImg', 'labelme', 'yolo-obb'])
def test_rotated_boxes_become_the_box_around_their_corners(form, tmp_path):
    write_numbered(tmp_path / 'pets', NAMES)
    write_rotated(form, tmp_path / 'pets')
    report, boxes = prepare(tmp_path)
    assert boxes['a.jpg'] == [TURNED]
    assert ('1 corrected rotated boxes that became the box around'
            in words(report))


def test_parts_of_a_group_are_one_object(tmp_path):
    root = tmp_path / 'pets'
    write_numbered(root, NAMES)
    left = [[2, 4], [12, 4], [12, 14], [2, 14]]
    right = [[20, 8], [30, 8], [30, 18]]
    for i, name in enumerate(NAMES):
        shapes = [dict(points=left, group_id=1), rectangle(i),
                  dict(points=right, group_id=1), dict(points=right)]
        write_labelme(root / f'{name[0]}.json', name, shapes)
    report, boxes = prepare(tmp_path, detector='mask-rcnn')
    assert sorted(boxes['c.jpg']) == sorted([
        ('cat', 2, 4, 28, 14), ('cat', *number_box(2)),
        ('cat', 20, 8, 10, 10)])
    assert '6 corrected parts joined by their group_id' in words(report)
    annotations = read_content(tmp_path / 'out')['val']['annotations']
    areas = {tuple(each['bbox']): each['area'] for each in annotations}
    assert areas[2, 4, 28, 14] == 100 + 50
    assert areas[20, 8, 10, 10] == 50


def test_an_empty_box_is_that_of_its_polygon(tmp_path):
    root = tmp_path / 'pets'
    write_numbered(root, NAMES)
    content = coco(NAMES)
    content['annotations'][0] |= dict(
        bbox=[0, 0, 0, 0], segmentation=[[3, 4, 23, 4, 23, 14]])
    write_json(root / 'labels.json', content)
    report, boxes = prepare(tmp_path)
    assert boxes['a.jpg'] == [('cat', 3, 4, 20, 10)]
    assert 'boxes computed from their polygon' in words(report)
    areas = [each['area'] for part in read_content(tmp_path / 'out').values()
             for each in part['annotations']]
    assert areas.count(100.) == 1


@pytest.mark.parametrize('size, area', [
    (dict(counts=[100, 50, 30, 7], size=[HEIGHT, WIDTH]), 57),
    ([[3, 4, 23, 4, 23, 14], [30, 4, 40, 4, 40, 14, 30, 14]], 200)])
def test_areas_are_those_of_masks(size, area, tmp_path):
    write_numbered(tmp_path / 'pets', NAMES)
    content = coco(NAMES)
    for each in content['annotations']:
        each |= dict(segmentation=size, bbox=[3, 4, 40, 20])
    write_json(tmp_path / 'pets/labels.json', content)
    prepare(tmp_path)
    found = read_content(tmp_path / 'out')['train']['annotations']
    assert {each['area'] for each in found} == {area}


@pytest.mark.parametrize('beyond', [0, 1, 2])
def test_the_importer_and_training_refuse_the_same_corners(beyond, tmp_path):
    root = tmp_path / 'pets'
    write_numbered(root, NAMES)
    boxes = {i: [20, 10, 42, 30] for i in range(6)}
    boxes |= {i: [30, 20, 50, 40] for i in range(beyond)}
    write_json(root / 'labels.json', coco(NAMES, boxes))
    content = json.loads((root / 'labels.json').read_text())
    for each in content['annotations']:
        each['id'] = each['image_id']
    write_json(tmp_path / 'strict.json', content)
    refusals = []
    for call in (lambda: prepare(tmp_path),
                 lambda: load_coco(str(tmp_path / 'strict.json'))):
        try:
            call()
            refusals.append('')
        except UserError as error:
            refusals.append(str(error))
    assert [' not corners' in text for text in refusals] == 2 * [beyond > 1]


def write_photos(root, orientation):
    """Write photographs that EXIF rotates, and return the upright sizes."""
    write_numbered(root, NAMES)
    exif = Image.Exif()
    exif[0x0112] = orientation
    for name in NAMES:
        Image.open(root / name).save(root / name, exif=exif)
    return ImageFile(str(root / NAMES[0])).shape[::-1]


@pytest.mark.parametrize('orientation', range(1, 9))
def test_points_are_turned_as_pixels(orientation, tmp_path):
    stored = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    stored[5:9, 40:60] = 255
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(stored).save(tmp_path / 'a.png', exif=exif)
    upright = ImageFile(str(tmp_path / 'a.png')).decode()[..., 0]
    image = ListedImage('', '', size=upright.shape[::-1],
                        orientation=orientation)
    x, y = np.reshape(_turn_points([40, 5, 60, 9], image), (2, 2)).T
    inside = upright[int(min(y)):int(max(y)), int(min(x)):int(max(x))]
    assert inside.size == 80 and (inside == 255).all()


@pytest.mark.parametrize('orientation', [3, 6])
def test_boxes_on_stored_pixels_need_an_option(orientation, tmp_path):
    width, height = write_photos(tmp_path / 'pets', orientation)
    write_each('yolo', tmp_path / 'pets')
    with pytest.raises(UserError, match='6 images are rotated.*--boxes-on'):
        prepare(tmp_path)
    report, boxes = prepare(tmp_path, boxes_on='stored')
    x, y, w, h = number_box(0)
    assert boxes['a.jpg'] == [
        ('cat', width - x - w, height - y - h, w, h) if orientation == 3 else
        ('cat', width - y - h, x, h, w)]
    assert '6 notes images are rotated by EXIF' in words(report)


@pytest.mark.parametrize('tool', ['', 'Label Studio'])
def test_sizes_may_tell_that_boxes_are_upright(tool, tmp_path):
    width, height = write_photos(tmp_path / 'pets', 6)
    content = coco(NAMES, info=dict(contributor=tool))
    for image in content['images']:
        image |= dict(width=width, height=height)
    if tool:  # it writes the stored sizes
        for image in content['images']:
            image |= dict(width=height, height=width)
    write_json(tmp_path / 'pets/labels.json', content)
    report, boxes = prepare(tmp_path)
    assert boxes['b.jpg'] == [('cat', *number_box(1))]
    assert '6 notes images are rotated by EXIF' in words(report)


def test_stored_sizes_of_other_tools_tell_nothing(tmp_path):
    write_photos(tmp_path / 'pets', 8)
    write_json(tmp_path / 'pets/labels.json', coco(NAMES))
    with pytest.raises(UserError, match='--boxes-on'):
        prepare(tmp_path)
