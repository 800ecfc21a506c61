# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Exports as users reported them, in their tools' trackers.

Each is read right, or refused in one line; nothing goes to another image or
class in silence. Names such as ``cvat#7523`` tell where it was reported.
"""
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from qbheat_mm.apis import prepare_boxes, prepare_classes
from qbheat_mm.errors import UserError

from .oracle.read_back import (
    Triple,
    assert_equal_boxes,
    fingerprint,
    read_boxes,
    read_classes,
)

SIZE = WIDTH, HEIGHT = 40, 30
#: Left, top, width and height of a cat and a dog.
CAT, DOG = ('cat', 2, 3, 10, 9), ('dog', 20, 12, 12, 15)


class Export:
    """A folder of images, and what it states of them."""

    def __init__(self, root: Path) -> None:
        self.root = root / 'export'
        self.out = root / 'out'
        self.triples, self.images = [], set()
        self.seed = 0

    def image(self, path: str, *objects: tuple) -> None:
        """Write an image, and remember what is on it."""
        print_ = self.unlisted(path)
        self.images.add(('', print_))
        for label, *box in objects:
            self.triples.append(Triple('', print_, label, tuple(box)))

    def unlisted(self, path: str) -> str:
        """Write an image that must not be in the output."""
        self.seed += 1
        pixels = np.random.default_rng(self.seed).integers(
            0, 255, (3, 4, 3), np.uint8)
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).resize(SIZE, Image.NEAREST).save(
            file, {'.png': 'png'}.get(file.suffix.lower(), 'jpeg'))
        return fingerprint(file)

    def text(self, path: str, text: str, encoding='utf-8') -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode(encoding))

    def coco(self, objects: dict, change=None) -> None:
        """Write labels.json with the objects of each listed name."""
        ids = dict(cat=1, dog=2)
        content = dict(images=[], annotations=[], categories=[
            dict(id=number, name=name) for name, number in ids.items()])
        for number, (name, items) in enumerate(objects.items()):
            content['images'].append(dict(
                id=number, file_name=name, width=WIDTH, height=HEIGHT))
            for label, *box in items:
                content['annotations'].append(dict(
                    id=len(content['annotations']), image_id=number,
                    category_id=ids[label], bbox=box))
        if change:
            change(content)
        self.text('labels.json', json.dumps(content))

    def yolo(self, path: str, *objects: tuple, names=('cat', 'dog'),
             more='') -> None:
        self.text(path, ''.join(
            f'{names.index(label)} {(x + w / 2) / WIDTH} '
            f'{(y + h / 2) / HEIGHT} {w / WIDTH} {h / HEIGHT}{more}\n'
            for label, x, y, w, h in objects))

    def pairs(self, names=('cat', 'dog'), more='') -> None:
        """Four images of both classes with YOLO's label files."""
        for stem in ('one', 'two', 'three', 'four'):
            objects = [(names[0], *CAT[1:]), (names[1], *DOG[1:])]
            self.image(f'images/{stem}.jpg', *objects)
            self.yolo(f'labels/{stem}.txt', *objects, names=names, more=more)

    def voc(self, path: str, filename: str, *objects: tuple, size=SIZE,
            extra='') -> None:
        items = ''.join(
            f'<object><name>{label}</name>{extra}<bndbox><xmin>{x}</xmin>'
            f'<ymin>{y}</ymin><xmax>{x + w}</xmax><ymax>{y + h}</ymax>'
            '</bndbox></object>' for label, x, y, w, h in objects)
        self.text(path, (
            f'<annotation><filename>{filename}</filename><size>'
            f'<width>{size[0]}</width><height>{size[1]}</height></size>'
            f'{items}</annotation>'))

    def labelme(self, path: str, image: str, *shapes: dict) -> None:
        self.text(path, json.dumps(dict(
            version='5.4.1', flags={}, shapes=shapes, imagePath=image,
            imageData=None, imageWidth=WIDTH, imageHeight=HEIGHT)))

    def check(self, images: bool = True, **options):
        """Prepare boxes, and compare all of them."""
        report = prepare_boxes(str(self.root), str(self.out), **options)
        triples, written = read_boxes(self.out)
        if not images:
            written = self.images
        assert_equal_boxes((self.triples, self.images), (triples, written),
                           False)
        return report

    def refuse(self, match: str, **options) -> None:
        with pytest.raises(UserError, match=match) as error:
            prepare_boxes(str(self.root), str(self.out), **options)
        assert '\n' not in str(error.value)
        assert not self.out.exists()


@pytest.fixture
def export(tmp_path):
    return Export(tmp_path)


def test_two_images_and_one_label_file_of_their_old_name(export):
    """label-studio-converter#132: labels of equal names overwrite."""
    export.pairs()
    export.text('classes.txt', 'cat\ndog\n')
    export.image('images/0000_7436.jpg')
    export.image('images/0000_6dd1.jpg')
    export.yolo('labels/0000.txt', CAT, DOG)
    report = export.check()
    assert report.account.left_out('boxes') == 2


@pytest.mark.parametrize('stem', [
    'aaa.jpg.something', 'image.webp', '1670577347.002843', '.5', 'a.txt'])
def test_stems_with_dots(stem, export):
    """darknet#944, pylabel#49, make-sense#314."""
    if stem.startswith('.'):
        stem = f'x{stem}'
    export.pairs()
    export.text('labels/classes.txt', 'cat\ndog\n')
    export.image(f'images/{stem}.jpg', CAT)
    export.yolo(f'labels/{stem}.txt', CAT)
    export.image(f'images/{stem.split(".")[0]}.jpg')
    export.check()


def test_names_with_and_without_folders_in_one_file(export):
    """X-AnyLabeling#700: '10.jpg' and '..\\\\label\\\\12.jpg'."""
    objects = {}
    for number in range(6):
        export.image(f'label/{number}.jpg', CAT, DOG)
        prefix = '..\\label\\' if number % 2 else ''
        objects[f'{prefix}{number}.jpg'] = [CAT, DOG]
    export.coco(objects)
    export.check()


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


@pytest.mark.parametrize('hidden', [
    '.ipynb_checkpoints/one-checkpoint.jpg', '__MACOSX/images/._one.jpg',
    'images/._one.jpg', '__MACOSX/._classes.txt', '__MACOSX/._data.yaml',
    'labels/._one.txt', '._labels.json', '__MACOSX/._labels.json',
    'images/.ipynb_checkpoints/one-checkpoint.jpg'])
def test_hidden_files_are_no_part_of_an_export(hidden, export):
    """hub#89, mmpretrain#507: copies that Jupyter and macOS leave."""
    export.pairs()
    export.text('classes.txt', 'cat\ndog\n')
    if 'checkpoint' in hidden:
        export.unlisted(hidden)
    else:
        export.text(hidden, '\x00\x05\x16\x07\x00Mac OS X', 'latin-1')
    export.check()


@pytest.mark.parametrize('hidden', [
    '.ipynb_checkpoints/a-checkpoint.jpg', '__MACOSX/cat/._0.jpg',
    'cat/._0.jpg', 'cat/.ipynb_checkpoints/0-checkpoint.jpg'])
def test_hidden_folders_are_no_classes(hidden, export):
    """mmpretrain#507, vision#2831."""
    expected = set()
    for label in ('cat', 'dog'):
        for number in range(6):
            print_ = export.unlisted(f'{label}/{number}.jpg')
            expected.add((print_, label))
    if 'checkpoint' in hidden:
        export.unlisted(hidden)
    else:
        export.text(hidden, '\x00\x05\x16\x07\x00Mac OS X', 'latin-1')
    prepare_classes(str(export.root), str(export.out))
    assert expected == {(triple.image, triple.label)
                        for triple in read_classes(export.out)}


@pytest.mark.parametrize('names', [
    ('no', 'yes'), ('007', '7'), ('1_0', '1e3'), ('2024-01-15', '~'),
    ('null', 'on')])
@pytest.mark.parametrize('style', ['list', 'rows', 'numbered'])
def test_names_that_yaml_takes_for_values(names, style, export):
    """A class ``no`` is no ``False``."""
    export.pairs(names)
    export.text('data.yaml', 'train: images\nnc: 2\n' + dict(
        list=f'names: [{names[0]}, {names[1]}]\n',
        rows=f'names:\n- {names[0]}\n- {names[1]}\n',
        numbered=f'names:\n  1: {names[1]}\n  0: {names[0]}\n')[style])
    export.check()


def test_key_points_are_no_polygons(export):
    """ultralytics#1970: class, box, then x, y and visibility."""
    export.pairs(more=' 0.1 0.1 2 0.2 0.3 1')
    export.text('data.yaml', 'train: images\nkpt_shape: [2, 3]\n'
                'names: [cat, dog]\n')
    export.check()


def test_key_points_that_nothing_announces_are_refused(export):
    export.pairs(more=' 0.1 0.1 2 0.2 0.3 1')
    export.text('classes.txt', 'cat\ndog\n')
    export.refuse('labels')


def test_confidences_are_no_part_of_a_box(export):
    """ultralytics#1170: save_conf adds a sixth number."""
    export.pairs(more=' 0.93')
    export.text('classes.txt', 'cat\ndog\n')
    try:
        export.check()
    except UserError as error:
        assert 'labels' in str(error)


def test_an_empty_line_in_classes_txt_is_a_class(export):
    """Ids count lines: without the empty one, dogs would be birds."""
    names = ('cat', '', 'dog', 'bird')
    for stem in 'abcd':
        export.image(f'images/{stem}.jpg', CAT, DOG)
        export.yolo(f'labels/{stem}.txt', CAT, DOG, names=names)
    export.text('classes.txt', '\n'.join(names))
    try:
        export.check()
    except UserError as error:
        assert 'class' in str(error)


def test_a_byte_order_mark_is_no_part_of_a_name(export):
    """Notepad and PowerShell begin files with it."""
    export.pairs()
    export.text('classes.txt', '\ufeffcat\r\ndog\r\n')
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
    try:
        export.check()
    except UserError as error:
        assert 'a.jpg' in str(error)


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


def test_a_neighbor_is_not_taken_for_a_folder_of_the_export(export):
    """data.yaml's '../valid/images' is within the export."""
    other = Export(export.root.parent / 'elsewhere')
    other.root = export.root.parent
    other.unlisted('valid/images/one.jpg')
    for split in ('train', 'valid'):
        for number in range(2):
            stem = f'{split}/images/{number}'
            export.image(f'{stem}.jpg', CAT, DOG)
            export.yolo(f'{split}/labels/{number}.txt', CAT, DOG)
    export.text('data.yaml', 'train: ../train/images\n'
                'val: ../valid/images\nnames: [cat, dog]\n')
    export.check()


def shape(kind, points, **more):
    return dict(label='cat', shape_type=kind, points=points, group_id=None,
                flags={}, **more)


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
            shape('rectangle', [[12, 12], [2, 3]], description='') | dict(
                label='dog'))
    report = export.check()
    assert report.account.left_out('boxes') == 8


def test_windows_paths_of_labelme(export):
    """labelme#1725, supervision#2581."""
    for stem in ('a', 'b', 'c', 'd'):
        export.image(f'files/{stem}.jpg', CAT, DOG)
        export.labelme(f'json/{stem}.json', f'..\\files\\{stem}.jpg', *(
            shape('rectangle', [[x, y], [x + w, y + h]]) | dict(label=label)
            for label, x, y, w, h in (CAT, DOG)))
    export.check()


def test_an_image_with_two_classes_is_refused_or_counted(export):
    """The same file under two labels in a CSV file."""
    rows = ['name,label']
    for label in ('cat', 'dog'):
        for number in range(6):
            export.unlisted(f'{label}{number}.jpg')
            rows.append(f'{label}{number}.jpg,{label}')
    rows.append('cat0.jpg,dog')
    export.text('labels.csv', '\n'.join(rows))
    try:
        report = prepare_classes(
            str(export.root / 'labels.csv'), str(export.out))
    except UserError as error:
        assert 'cat0.jpg' in str(error)
    else:
        prints = [triple.image for triple in read_classes(export.out)]
        assert len(prints) == len({*prints})
        assert report.account.left_out('images')


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
    assert report.account.left_out('images') == 1


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


def test_one_class_is_refused(export):
    """Such as of an archive's only folder, which holds the classes."""
    for label in ('cat', 'dog'):
        for number in range(4):
            export.unlisted(f'archive/{label}/{number}.jpg')
    with pytest.raises(UserError, match='two classes'):
        prepare_classes(str(export.root), str(export.out))
    assert not export.out.exists()


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
    assert report.account.left_out('images') == 2


@pytest.mark.parametrize('other', ['cat\ndog\n', 'dog\ncat\n'])
def test_lists_of_classes_in_several_folders(other, export):
    """labelImg writes classes.txt into every folder."""
    for folder, names in (('a', 'cat\ndog\n'), ('b', other)):
        export.text(f'{folder}/classes.txt', names)
        for number in range(3):
            export.image(f'{folder}/{number}.jpg', CAT, DOG)
            export.yolo(f'{folder}/{number}.txt', CAT, DOG)
    if other == 'cat\ndog\n':
        export.check()
    else:
        export.refuse('classes.txt')


def test_swapped_corners_are_put_right_or_left_out(export):
    """PaddleDetection#2991: right if within the image, else useless."""
    for stem in 'abcd':
        export.image(f'{stem}.jpg', CAT, DOG)
        export.voc(f'{stem}.xml', f'{stem}.jpg', CAT,
                   ('dog', 32, 27, -12, -15), ('dog', 50, 20, -20, -8))
    report = export.check()
    assert report.account.left_out('boxes') == 4
    assert report.account['put right', 'corners in the wrong order'
                          ].number == 4


def test_label_files_in_other_case(export):
    """Windows does not tell Photo.jpg's photo.txt from Photo.txt."""
    export.pairs()
    export.text('classes.txt', 'cat\ndog\n')
    export.image('images/Photo.jpg', CAT, DOG)
    export.yolo('labels/photo.txt', CAT, DOG)
    report = export.check()
    assert report.account.left_out('boxes') == 0


def test_a_missing_image_keeps_its_label_file(export):
    """The boxes of img_1.jpg are not those of the negative IMG_1.jpg."""
    export.pairs()
    export.image('images/IMG_1.jpg')
    export.yolo('labels/img_1.txt', CAT, DOG)
    names = ('one', 'two', 'three', 'four', 'IMG_1', 'img_1')
    export.text('train.txt', '\n'.join(f'./images/{n}.jpg' for n in names))
    export.text('data.yaml', 'train: train.txt\nnames: [cat, dog]\n')
    report = export.check()
    assert report.account.left_out('boxes') == 2
