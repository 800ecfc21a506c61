# Copyright (c) QB-Heat MM authors. All rights reserved.
"""COCO files as users reported them, in their tools' trackers.

Each is read right, or refused in one line. Names such as ``cvat#7523`` tell
where it was reported.
"""
import json
import shutil
import unicodedata

import pytest

from ..helpers.exports import CAT, DOG


def test_names_with_and_without_folders_in_one_file(export):
    """X-AnyLabeling#700: '10.jpg' and '..\\\\label\\\\12.jpg'."""
    objects = {}
    for number in range(6):
        export.image(f'label/{number}.jpg', CAT, DOG)
        prefix = '..\\label\\' if number % 2 else ''
        objects[f'{prefix}{number}.jpg'] = [CAT, DOG]
    export.coco(objects)
    export.check()


def same_ids(content):
    content['images'][1]['id'] = content['images'][0]['id']


def no_image_ids(content):
    for item in content['annotations']:
        item['item_id'] = item.pop('image_id')


@pytest.mark.parametrize('change, match', [
    (same_ids, 'labels.json'), (no_image_ids, 'labels.json')])
def test_boxes_that_name_no_image_are_refused(change, match, export):
    """cvat#7523, via#23 (dates as ids), vailabel-studio#277."""
    names = ['20250116_1.jpg', '20250116_2.jpg', 'c.jpg', 'd.jpg']
    for name in names:
        export.image(name, CAT, DOG)
    export.coco({name: [CAT, DOG] for name in names}, change)
    export.refuse(match)


def same_annotation_ids(content):
    for item in content['annotations']:
        item['id'] = 1


def test_boxes_with_one_id_are_all_there(export):
    """datumaro#56: objects with equal ids are not merged."""
    names = ['a.jpg', 'b.jpg', 'c.jpg', 'd.jpg']
    for name in names:
        export.image(name, CAT, DOG)
    export.coco({name: [CAT, DOG] for name in names}, same_annotation_ids)
    export.check()


def list_twice(content):
    first = content['images'][0]
    content['images'].append(dict(first, id=77))
    content['annotations'][1]['image_id'] = 77


def test_an_image_that_is_listed_twice_has_all_boxes(export):
    """COCO-Assistant#25: merged files list an image under two ids."""
    names = ['a.jpg', 'b.jpg', 'c.jpg', 'd.jpg']
    for name in names:
        export.image(name, CAT, DOG)
    export.coco({name: [CAT, DOG] for name in names}, list_twice)
    export.check()


def test_upper_and_lower_case_extensions(export):
    """Total-Text#35: listed as .jpg, the file is .JPG."""
    names = ['img61.jpg', 'img62.jpg', 'IMG63.jpeg', 'img64.jpg']
    for name in names:
        export.image(name.replace('.jp', '.JP'), CAT, DOG)
    export.coco({name: [CAT, DOG] for name in names})
    export.check()


def test_names_that_differ_in_case_only(export):
    names = ['a.jpg', 'A.jpg', 'a.JPG', 'b.jpg', 'c.jpg']
    objects = {}
    for number, name in enumerate(names):
        objects[name] = [CAT, ('dog', 20 + number, 12, 10, 10)]
        export.image(name, *objects[name])
    export.coco(objects)
    export.check()


def test_local_files_of_label_studio(export):
    """label-studio#1928: '/data/local-files/?d=pets/a%20b.jpg'."""
    objects = {}
    for stem in ('a b', 'c', 'd', 'e'):
        export.image(f'images/{stem}.jpg', CAT, DOG)
        quoted = stem.replace(' ', '%20')
        objects[f'/data/local-files/?d=pets/{quoted}.jpg'] = [CAT, DOG]
    export.coco(objects, lambda content: content.update(
        info=dict(contributor='Label Studio')))
    export.check()


@pytest.mark.parametrize('missing, there', [
    ('20240115/a.jpg', 'a.jpg'), ('a%20b.jpg', 'a b.jpg'),
    ('IMG_1.jpg', 'img_1.jpg'), ('c.png', 'c.jpg'), ('x/d.jpg', 'y/d.jpg')])
@pytest.mark.parametrize('first', [False, True])
def test_the_stronger_claim_has_the_file(missing, there, first, export):
    """A missing image never takes the file of another entry."""
    objects = {missing: [CAT], there: [DOG]} if first else {
        there: [DOG], missing: [CAT]}
    export.image(f'photos/{there}', DOG)
    for number in range(4):
        objects[f'{number}.jpg'] = [CAT, DOG]
        export.image(f'photos/{number}.jpg', CAT, DOG)
    export.coco(objects)
    report = export.check()
    assert report.account.skipped('images') == 1


@pytest.mark.parametrize('options', [
    dict(classes=['cat', 'bird']), dict(drop_classes=['bird'])])
def test_chosen_classes_must_exist(options, export):
    names = ['a.jpg', 'b.jpg', 'c.jpg', 'd.jpg']
    for name in names:
        export.image(name, CAT, DOG)
    export.coco({name: [CAT, DOG] for name in names})
    export.refuse("'bird'", **options)


def test_boxes_that_are_all_crowds_become_objects(export):
    """There would be nothing to learn."""
    names = ['a.jpg', 'b.jpg', 'c.jpg', 'd.jpg']
    for name in names:
        export.image(name, CAT, DOG)

    def mark(content):
        for item in content['annotations']:
            item['iscrowd'] = 1
    export.coco({name: [CAT, DOG] for name in names}, mark)
    export.check()
    for file in (export.out / 'annotations').iterdir():
        content = json.loads(file.read_text())
        assert not any(item['iscrowd'] for item in content['annotations'])


def test_a_date_is_no_hash(export):
    """Only Label Studio puts eight digits in front of names."""
    objects = {f'{number}.jpg': [CAT, DOG] for number in range(4)}
    for name in objects:
        export.image(name, CAT, DOG)
    for name in ('20240115-0800.jpg', 'deadbeef-0900.jpg'):
        objects[name] = [CAT]
        export.unlisted(name[9:])
    export.coco(objects)
    report = export.check()
    assert report.account.skipped('images') == 2


@pytest.mark.parametrize('outline', [
    [[]], [[4, 5, 24, 25]], [[4, 5, 24, 25, 9]],
    [[10, 10, 40, 40, 40, 10, 10, 40]]],  # crosses itself
    ids=['empty', 'two-points', 'odd', 'crossed'])
def test_boxes_of_poor_outlines_are_trained_on(outline, export):
    """Training skips objects without an area."""
    names = ['a.jpg', 'b.jpg', 'c.jpg', 'd.jpg']
    for name in names:
        export.image(name, CAT, DOG)

    def draw(content):
        for item in content['annotations'][::2]:
            item['segmentation'] = outline
    export.coco({name: [CAT, DOG] for name in names}, draw)
    report = export.check()
    assert not [kind for kind, _ in report.account if kind == 'warnings']


@pytest.mark.parametrize('form', ['NFC', 'NFD'])
def test_names_that_macos_decomposed(form, export):
    """Archives of macOS spell letters with accents in two characters."""
    names = [f'Bücher_{letter}.jpg' for letter in 'abcd']
    for name in names:
        export.image(unicodedata.normalize(form, name), CAT)
    export.coco({name: [CAT] for name in names})
    export.check()


def test_categories_of_one_name(export):
    """As left hand and left foot; Roboflow's first category has no boxes."""
    objects = {f'{name}.jpg': [CAT, DOG] for name in 'abcdef'}
    for name in objects:
        export.image(name, CAT, DOG)
    export.coco(objects, lambda content: content['categories'].insert(
        0, dict(id=0, name='cat', supercategory='none')))
    export.check()
    shutil.rmtree(export.out)

    def rename(content):
        content['categories'][1]['name'] = 'cat'
    export.coco(objects, rename)
    export.refuse("labels.json': the ids 1 and 2 are both class 'cat'")


def test_a_file_that_lacks_a_category_is_told(export):
    """Its cats would be background."""
    objects = {f'june/{name}.jpg': [DOG] for name in 'abcdef'}
    for name in objects:
        export.image(name, DOG)
    export.coco(objects, lambda content: content['categories'].pop(0))
    (export.root / 'labels.json').rename(export.root / 'june.json')
    more = {f'march/{name}.jpg': [CAT, DOG] for name in 'abcdef'}
    for name in more:
        export.image(name, CAT, DOG)
    export.coco(more)
    account = export.check().account
    count = account['notes', "files lack the category 'cat': their images "
                    'count as having no such objects']
    assert count.number == 1 and 'june.json' in count.example
