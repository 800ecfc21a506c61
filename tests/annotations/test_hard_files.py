# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Pascal VOC's and labelme's files as users reported them.

Each is read right, or refused in one line. Names such as ``cvat#7523`` tell
where it was reported.
"""
import json

import pytest

from ..helpers.exports import CAT, DOG


def test_filenames_without_extension_and_sizes_of_zero(export):
    """labelImg#92, labelImg#309, label-studio-converter#106."""
    for stem in ('a', 'b', 'v1.0', 'v1.1'):
        export.image(f'{stem}.jpg', CAT, DOG)
        export.voc(f'{stem}.xml', stem, CAT, DOG, size=(0, 0))
    export.check()


def test_parts_of_an_object_are_no_objects(export):
    """VOC 2012 lists the boxes of heads and hands within a person."""
    part = ('<part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin>'
            '<xmax>5</xmax><ymax>5</ymax></bndbox></part>')
    for stem in 'abcd':
        export.image(f'JPEGImages/{stem}.jpg', CAT, DOG)
        export.voc(f'Annotations/{stem}.xml', f'{stem}.jpg', CAT, DOG,
                   extra=part)
    export.check()


def test_lists_of_names_with_extensions(export):
    """PaddleDetection#1362: 'mixed_20.jpg' in train.txt."""
    for stem in ('mixed_20', 'mixed_21', '2024-01-15', 'val_3'):
        export.image(f'JPEGImages/{stem}.jpg', CAT, DOG)
        export.voc(f'Annotations/{stem}.xml', f'{stem}.jpg', CAT, DOG)
    export.text('ImageSets/Main/train.txt',
                'mixed_20.jpg\r\nmixed_21.jpg\r\nval_3.jpg\r\n')
    export.text('ImageSets/Main/val.txt', '2024-01-15.jpg\r\n\r\n')
    export.check()
    images = json.loads((export.out / 'annotations/val.json').read_text())
    assert len(images['images']) == 1


def shape(kind, points, **more):
    return dict(shape_type=kind, points=points, group_id=None, flags={},
                **more)


def test_shapes_of_labelme(export):
    """A circle is its center and a point; lines and points are no boxes."""
    polygon = shape('polygon', [[20, 12], [32, 12], [32, 27], [20, 27]])
    for stem in 'abcd':
        export.image(f'{stem}.jpg', ('cat', 5, 5, 10, 10),
                     ('cat', 20, 12, 12, 15), ('dog', 2, 3, 10, 9))
        export.labelme(
            f'{stem}.json', f'{stem}.jpg',
            shape('circle', [[10, 10], [10, 15]]), polygon,
            shape('point', [[3, 3]]), shape('line', [[3, 3], [9, 9]]),
            shape('rectangle', [[12, 12], [2, 3]], label='dog',
                  description=''))
    report = export.check()
    assert report.account.skipped('boxes') == 8


def test_swapped_corners_are_corrected_or_skipped(export):
    """PaddleDetection#2991: right if within the image, else useless."""
    for stem in 'abcd':
        export.image(f'{stem}.jpg', CAT, DOG)
        export.voc(f'{stem}.xml', f'{stem}.jpg', CAT,
                   ('dog', 32, 27, -12, -15), ('dog', 80, 20, -20, -8))
    report = export.check()
    assert report.account.skipped('boxes') == 4
    assert report.account['corrected', 'corners in the wrong order'
                          ].number == 4


@pytest.mark.parametrize('database, first', [
    ('The VOC2007 Database', 1), ('The VOC2012 Database', 1),
    ('VOC2007', 1), ('roboflow.ai', 1), ('Unknown', 0), ('', 0),
    ('my pets', 0)])
def test_corners_count_from_what_the_tool_counts_from(database, first,
                                                      export):
    """PASCAL's from 1, both included; labelImg's, CVAT's and others' from 0.
    """
    for stem in 'abcd':
        export.image(f'{stem}.jpg', CAT, ('dog', 44, 30, 20, 18))
        objects = []
        for label, x, y, w, h in (CAT, ('dog', 44, 30, 20, 18)):
            objects.append((label, x + first, y + first, w - first,
                            h - first))
        export.voc(f'{stem}.xml', f'{stem}.jpg', *objects,
                   source=f'<source><database>{database}</database></source>')
    report = export.check()
    assert ('corrected', 'corners counted from 1') in report.account or (
        not first)


def test_the_name_of_a_database_that_was_copied(export):
    """A corner at 0 tells that another tool wrote it."""
    for stem in 'abcd':
        export.image(f'{stem}.jpg', CAT, ('dog', 0, 5, 12, 15))
        export.voc(f'{stem}.xml', f'{stem}.jpg', CAT, ('dog', 0, 5, 12, 15),
                   source='<source><database>The VOC2007 Database</database>'
                   '</source>')
    export.check()
