# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What annotation files hold that is wrong: stopped, left out or mended."""
import copy

import pytest

from qbheat_mm.annotations import check_annotations
from qbheat_mm.errors import UserError

NAN = float('nan')


@pytest.fixture
def content():
    """Six images of 100x80, with two boxes each, of three classes."""
    boxes = [[10., 12., 30, 40], [50, 20, 20, 10]]
    annotations = [
        dict(id=2 * i + j + 1, image_id=i + 1, bbox=list(box), iscrowd=0,
             category_id=(i + j) % 3 + 1, area=box[2] * box[3])
        for i in range(6) for j, box in enumerate(boxes)
    ]
    return dict(
        images=[dict(id=i + 1, file_name=f'{i}.png', width=100, height=80)
                for i in range(6)],
        annotations=annotations,
        categories=[dict(id=i + 1, name=name)
                    for i, name in enumerate(('cup', 'pen', 'key'))])


def check(content, **kwargs):
    return check_annotations(content, 'a.json', **kwargs)


def stop(content, **kwargs):
    with pytest.raises(UserError) as error:
        check(content, **kwargs).report.require()
    line = str(error.value)
    assert line.startswith("annotation file 'a.json': ")
    assert '\n' not in line and len(line) < 700
    return line


@pytest.mark.parametrize('allow_subset', [False, True])
def test_one_name_is_no_list_of_classes(content, allow_subset):
    # As in classes=('cup') without the comma: 'u' is in it, and is no class.
    line = stop(content, classes='cup', allow_subset=allow_subset)
    assert "metainfo.classes='cup'" in line and "write ('cup', )" in line


def lines(report):
    return [str(finding) for finding in report.findings]


def test_a_sound_file_has_no_findings(content):
    before = copy.deepcopy(content)
    report = check(content, classes=['cup', 'pen', 'key']).report
    assert not report.findings and content == before
    assert report.per_class == dict(cup=4, pen=4, key=4)
    assert report.summary == ('6 images, 0 of them without boxes; 12 of 12 '
                              'boxes, 0 of them crowds; 3 classes')


# One annotation changed: it is left out, with its reason.
LEFT_OUT = {
    'are of an unknown image': dict(image_id=99),
    'have no image_id': dict(image_id=...),
    'have an image_id that is text': dict(image_id='1'),
    'have an image_id that is no id': dict(image_id=[1]),
    'are of an unknown category': dict(category_id=99),
    'have a category_id that is text': dict(category_id='1'),
    'have a category_id that is no id': dict(category_id=True),
    'are not four finite numbers': dict(bbox=[NAN, 1, 2, 3]),
    'have a negative width or height': dict(bbox=[20, 20, -10, 10]),
    'reach farther than 10 times': dict(bbox=[1, 1, 1e30, 1e30]),
    'are outside of their image': dict(bbox=[100, 10, 20, 20]),
    'have no width or no height': dict(bbox=[10, 10, 0, 20]),
    'look like shares of the image': dict(bbox=[.1, .2, .3, .4]),
    'are thinner than a pixel': dict(bbox=[10, 10, .5, 20]),
    'have an iscrowd that is neither': dict(iscrowd='maybe'),
    'say that they are to be ignored': dict(ignore=1),
}


def change(record, values):
    for key, value in values.items():
        if value is ...:
            del record[key]
        else:
            record[key] = value


@pytest.mark.parametrize('what', LEFT_OUT)
def test_one_box_is_left_out(content, what):
    change(content['annotations'][3], LEFT_OUT[what])
    report = check(content).report
    report.require()
    line, = lines(report)
    assert line.startswith(f'1 of 12 boxes {what}'), line
    assert 'annotation id 4' in line
    assert report.kept == 11 and sum(report.per_class.values()) == 11


@pytest.mark.parametrize('box', [
    None, {}, 'text', 5, [], [1, 2, 3], [1, 2, 3, 4, 5], [1, 2, None, 4],
    [1, 2, '3', 4], [1, 2, [3], 4], [True, 2, 3, 4], ..., [10**400, 1, 2, 3],
    [float('inf'), 1, 2, 3], dict(x=1, y=2, w=3, h=4)])
def test_boxes_of_every_wrong_type(content, box):
    change(content['annotations'][3], dict(bbox=box))
    report = check(content).report
    assert 'are not four finite numbers' in lines(report)[0]
    assert report.kept == len(content['annotations']) == 11


@pytest.mark.parametrize('record', [None, 3, 'text', [], True])
def test_annotations_that_are_no_objects(content, record):
    content['annotations'][3] = record
    assert '1 of 12 boxes are no objects' in lines(check(content).report)[0]


@pytest.mark.parametrize('values', [
    dict(iscrowd=...), dict(iscrowd=None), dict(iscrowd='0'),
    dict(area=...), dict(area=0), dict(area=-5), dict(area=None),
    dict(area='200'), dict(area=NAN), dict(area=True),
    dict(id=...), dict(id=0), dict(id='a'), dict(id=5)])
def test_what_is_mended_costs_no_box(content, values):
    wrong = content['annotations'][3]
    change(wrong, values)
    report = check(content).report
    finding, = report.findings
    assert finding.effect == 'mended' and finding.count == 1
    assert report.kept == 12 and wrong['iscrowd'] == 0
    assert wrong['area'] == 20 * 10
    ids = [each['id'] for each in content['annotations']]
    assert len(set(ids)) == 12 and min(ids) == 1


def test_crowds_in_quotes_stay_crowds(content):
    for each in content['annotations']:
        each['iscrowd'] = str(int(each['id'] == 1))
    report = check(content).report
    assert [a['iscrowd'] for a in content['annotations']] == [1] + [0] * 11
    assert report.findings[0].count == 12


def test_a_box_past_the_border_and_an_odd_area_are_kept(content):
    content['annotations'][3].update(bbox=[90, 10, 20, 10])
    content['annotations'][4].update(area=9000)
    report = check(content).report
    past, area = lines(report)
    assert past.startswith('1 of 12 boxes reach past the border')
    assert area.startswith('1 of 12 boxes have an area far from')
    assert report.kept == 12


@pytest.mark.parametrize('area', [30, .5])
def test_the_area_of_a_mask_may_be_small(content, area):
    content['annotations'][3].update(area=area, segmentation=[[1, 2, 3, 4]])
    assert not check(content).report.findings


def each_box(content, change):
    for each in content['annotations']:
        each['bbox'] = change(*each['bbox'])
    return content


@pytest.mark.parametrize('factor', [1, 0.001])
def test_corners(content, factor):
    each_box(content, lambda x, y, w, h: [x, y, x + w, y + h])
    if factor != 1:  # too near to the corner to reach past the border
        each_box(content, lambda *box: [factor * v + 1 for v in box])
        for each in content['annotations']:
            x1, y1, x2, y2 = each['bbox']
            each['area'] = (x2 - x1) * (y2 - y1)
    assert 'look like corners, x1, y1, x2, y2' in stop(content)


def test_shares(content):
    each_box(content, lambda x, y, w, h: [x / 100, y / 80, w / 100, h / 80])
    assert '12 of 12 boxes look like shares' in stop(content)


def test_another_size(content):
    each_box(content, lambda *box: [3 * side for side in box])
    assert 'as if annotated on a larger picture' in stop(content)


def test_a_smaller_size_is_told(content):
    content['annotations'] *= 3
    for i, each in enumerate(content['annotations']):
        content['annotations'][i] = dict(each, id=i + 1)
    each_box(content, lambda *box: [side / 2 for side in box])
    assert any('on a smaller picture' in line
               for line in lines(check(content).report))


@pytest.mark.parametrize('shift', [-1, 1])
def test_categories_counted_in_another_way(content, shift):
    for each in content['annotations']:
        each['category_id'] += shift
    assert 'number both alike' in stop(content)


def test_categories_by_their_place_in_the_list(content):
    for category, number in zip(content['categories'], (10, 20, 30)):
        category['id'] = number
    assert 'number both alike' in stop(content)


@pytest.mark.parametrize('values,what', [
    (dict(image_id=77), 'of an unknown image'),
    (dict(category_id=77), 'of an unknown category'),
    (dict(image_id='1'), 'text'),
    (dict(bbox=[1, 2, NAN, 4]), 'four finite numbers'),
    (dict(bbox=[500, 500, 9, 9]), 'reach past their image'),
    (dict(bbox=[5, 5, 0, 9]), 'no width'),
    (dict(bbox=None), 'four finite'),
    (dict(iscrowd='x'), 'iscrowd'),
    (dict(iscrowd=1), 'crowds'),
])
def test_most_boxes_wrong(content, values, what):
    for each in content['annotations'][:12 if 'crowds' in what else 7]:
        change(each, values)
    assert what in stop(content)


def test_nothing_left(content):
    content['annotations'] = []
    assert 'no box is left of 0 annotations' in stop(content)
    report = check(content, unlabelled=True).report
    assert not report.findings and report.kept == 0
    del content['annotations']
    assert check(content, unlabelled=True).content['annotations'] == []


@pytest.mark.parametrize('key', ['images', 'annotations', 'categories'])
@pytest.mark.parametrize('value', [..., None, {}, 'text', 3, [], [None]])
def test_lists_that_are_none(content, key, value):
    change(content, {key: value})
    stop(content)


IMAGE, CATEGORY = ('images', 1), ('categories', 1)


@pytest.mark.parametrize('place,values,words', [
    (IMAGE, dict(id=...), '1 of 6 images have no id'),
    (IMAGE, dict(id=[]), 'have a id that is none'),
    (IMAGE, dict(id=None), 'have a id that is none'),
    (IMAGE, dict(id=1), 'have the id of another'),
    (IMAGE, dict(file_name=...), 'have no file_name'),
    (IMAGE, dict(file_name=None), 'file_name=None'),
    (IMAGE, dict(file_name=''), "file_name=''"),
    (IMAGE, dict(width=...), 'have no width'),
    (IMAGE, dict(width='100'), "width='100'"),
    (IMAGE, dict(height=0), 'height=0'),
    (IMAGE, dict(height=NAN), 'height=nan'),
    (IMAGE, dict(height=True), 'height=True'),
    (CATEGORY, dict(id=...), '1 of 3 categories have no id'),
    (CATEGORY, dict(id='2'), "id='2'"),
    (CATEGORY, dict(id={}), 'id={}'),
    (CATEGORY, dict(id=1), 'have the id of another'),
    (CATEGORY, dict(name=...), 'have no name'),
    (CATEGORY, dict(name=3), 'name=3'),
    (CATEGORY, dict(name='cup'), 'have the name of another'),
])
def test_images_and_categories_that_cannot_be_used(content, place, values,
                                                   words):
    key, row = place
    change(content[key][row], values)
    line = stop(content)
    assert words in line and 'the 2. of the list' in line


def test_the_same_image_twice_is_taken_once(content):
    content['images'].append(dict(content['images'][0]))
    report = check(content).report
    assert [f.effect for f in report.findings] == ['mended']
    assert len(content['images']) == 6 and report.kept == 12


@pytest.mark.parametrize('name', ['0.png', './0.png', 'a/../0.png'])
def test_one_file_under_two_ids_is_told(content, name):
    content['images'][1]['file_name'] = name
    line, = lines(check(content).report)
    assert line.startswith('1 of 6 images have the file_name of another')


def test_text_as_ids_of_images(content):
    for image in content['images']:
        image['id'] = f'img-{image["id"]}'
    for each in content['annotations']:
        each['image_id'] = f'img-{each["image_id"]}'
    assert not check(content).report.findings


def test_ids_of_categories_with_a_decimal_point(content):
    """pycocotools finds categories by whole numbers alone."""
    for each in content['categories']:
        each['id'] = float(each['id'])
    for each in content['annotations']:
        each['category_id'] = float(each['category_id'])
    report = check(content).report
    line, = lines(report)
    assert line.startswith('3 of 3 categories have an id with a decimal point')
    assert report.boxes == report.kept == 12
    assert [repr(c['id']) for c in content['categories']] == ['1', '2', '3']


def test_classes(content):
    assert '3, [\'cup\', \'pen\', \'key\']' in stop(content, classes=['cup'])
    report = check(content, classes=['pen', 'cup', 'key']).report
    assert not report.stops and 'in another order' in lines(report)[0]
    report = check(content, classes=['cup', 'key'], allow_subset=True).report
    assert not report.findings and report.boxes == report.kept == 8
    assert report.per_class == dict(cup=4, key=4)


def test_names_that_look_the_same(content):
    """As macOS writes them: the mark behind its letter."""
    content['categories'][0]['name'] = 'tu\u0308te'
    line = stop(content, classes=['t\xfcte', 'pen', 'key'])
    assert r"'tu\u0308te'" in line and r"'t\xfcte'" in line


def test_objects_that_are_listed_twice_are_told(content):
    """By whoever merges two exports of the same work."""
    content['annotations'] += [
        dict(each, id=100 + i)
        for i, each in enumerate(content['annotations'][:3])]
    content['annotations'][-1]['category_id'] += 1  # another object
    report = check(content).report
    line, = lines(report)
    assert line.startswith('2 of 15 boxes are those of another')
    assert report.boxes == report.kept == 15


def test_a_class_that_loses_its_boxes_is_told(content):
    for each in content['annotations']:
        if each['category_id'] == 2:
            each['bbox'][2] = 0
    assert "1 of 3 classes have no box that can be used (as 'pen')" in lines(
        check(content).report)


def test_texts_of_a_file_stay_in_one_line(content):
    content['images'][0]['file_name'] = 'a\nb\ud800.png'
    content['annotations'][0]['bbox'] = 'c\nd'
    line, = lines(check(content).report)
    assert '\n' not in line
    line.encode()


def test_crowds_are_no_boxes_to_learn_from(content):
    for each in content['annotations'][:11]:
        each['iscrowd'] = 1
    report = check(content).report
    last = content['annotations'][11]['category_id'] - 1
    assert sorted(report.per_class.values()) == [0, 0, 1]
    assert list(report.per_class.values())[last] == 1
    told = '; '.join(lines(report))
    assert '11 of 12 boxes are crowds, which are not learned' in told
    assert '2 of 3 classes have no box that can be used' in told


def test_a_few_crowds_are_as_in_coco(content):
    content['annotations'][0]['iscrowd'] = 1
    assert not check(content).report.findings


@pytest.mark.parametrize('attributes, told', [
    (dict(rotation=45.), True), (dict(rotation=-90), True),
    (dict(rotation=0.), False), (dict(rotation=360), False),
    (dict(rotation='much'), False), (dict(occluded=True), False),
    (None, False), ([1], False)])
def test_boxes_that_were_turned_are_told(content, attributes, told):
    """Their bbox is that before the turn, as CVAT exports it."""
    content['annotations'][3]['attributes'] = attributes
    found = '; '.join(lines(check(content).report))
    assert ('1 of 12 boxes were turned' in found) == told


def test_a_subset_is_counted_by_its_own_classes(content):
    """Whatever has boxes, and whatever the boxes name."""
    def per_class(classes):
        report = check(copy.deepcopy(content), classes=classes,
                       allow_subset=True).report
        return report.per_class, '; '.join(lines(report))

    content['categories'].append(dict(id=4, name='thing'))  # has none
    assert per_class(['cup', 'key'])[0] == dict(cup=4, key=4)
    content['annotations'] = [
        each for each in content['annotations'] if each['category_id'] != 3]
    found, told = per_class(['cup', 'key'])
    assert found == dict(cup=4, key=0)
    assert "1 of 2 classes have no box that can be used (as 'key')" in told
    content['annotations'][0]['category_id'] = 77
    assert set(per_class(['cup', 'pen'])[0]) == {'cup', 'pen'}


def test_ids_of_images_are_of_one_kind(content):
    content['images'][2]['id'] = 'c'
    for each in content['annotations']:
        if each['image_id'] == 3:
            each['image_id'] = 'c'
    assert '1 of 6 images have an id that is text' in stop(content)
