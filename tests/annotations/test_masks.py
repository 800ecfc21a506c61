# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Objects without a mask that can be read."""
import copy

import numpy as np
import pytest
from pycocotools import mask as mask_api

from qbheat_mm.annotations import check_annotations, check_masks
from qbheat_mm.errors import UserError

TRIANGLE = [1, 1, 20, 1, 1, 20]
RLE = dict(counts=[0, 8000], size=[80, 100])


@pytest.fixture
def content():
    """Four objects with a mask each, on an image of 100x80."""
    return dict(
        images=[dict(id=1, file_name='a.png', width=100, height=80)],
        annotations=[
            dict(id=i + 1, image_id=1, category_id=1, bbox=[1, 1, 20, 20],
                 area=200, iscrowd=0, segmentation=[list(TRIANGLE)])
            for i in range(4)],
        categories=[dict(id=1, name='cup')])


def as_text(seed):
    """A mask as pycocotools writes it, of few runs or of many."""
    random = np.random.default_rng(seed)
    mask = random.random((80, 100)) < (0., .02, .5)[seed]
    found = mask_api.encode(np.asfortranarray(mask.astype(np.uint8)))
    return dict(size=found['size'], counts=found['counts'].decode())


def check(content):
    checked = check_annotations(copy.deepcopy(content), 'a.json')
    check_masks(checked.content, checked.images, checked.report)
    return checked


def test_good_ones_stay(content):
    content['annotations'][0].update(segmentation=RLE, iscrowd=1)
    for annotation, seed in zip(content['annotations'][1:], range(3)):
        annotation['segmentation'] = as_text(seed)
    checked = check(content)
    assert len(checked.content['annotations']) == 4
    assert not [f for f in checked.report.findings if 'mask' in f.what]


@pytest.mark.parametrize('value', [
    None, [], '', 'abc', 3, [[1, 2, 3, 4]], [[1, 1, 20, 1, 1]], [[]],
    [TRIANGLE[:-1] + ['20']], [TRIANGLE[:-1] + [float('nan')]], {},
    dict(RLE, counts=None), dict(RLE, size=[100, 80]), dict(RLE, size=80),
    [{}], TRIANGLE, dict(RLE, counts=[100, 50, 100]),
    dict(RLE, counts=[100, 50, 900000]), dict(RLE, counts=[8100, -100]),
    dict(RLE, counts=''), dict(RLE, counts='eJxxx'), dict(RLE, counts='P'),
    dict(RLE, counts='\u00e9'), dict(RLE, counts=as_text(2)['counts'][:-9])])
def test_bad_ones_are_left_out_and_counted(content, value):
    content['annotations'][1]['segmentation'] = value
    if value is None:
        del content['annotations'][1]['segmentation']
    checked = check(content)
    kept = [each['id'] for each in checked.content['annotations']]
    assert kept == [1, 3, 4]
    line, = [line for line in checked.report.warnings() if 'mask' in line]
    assert line.startswith('1 of 4 objects have no mask that can be read')
    assert 'annotation id 2' in line and line.endswith('left out')


def test_a_bad_polygon_beside_a_good_one(content):
    content['annotations'][1]['segmentation'].append([1, 2])
    checked = check(content)
    assert checked.content['annotations'][1]['segmentation'] == [TRIANGLE]
    assert '1 of 4 objects have polygons' in str(
        checked.report.of('mended')[0])


def test_boxes_alone_stop_with_the_way_out(content):
    for annotation in content['annotations'][:3]:
        del annotation['segmentation']
    with pytest.raises(UserError, match='3 of 4 objects have no mask.*list '
                                        'of polygons.*detector of boxes'):
        check(content).report.require()
