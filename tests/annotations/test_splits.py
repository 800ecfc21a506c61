# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Folders and lists decide on splits, and no image is in two."""
import os

import pytest

from qbheat_mm.apis import prepare_boxes, prepare_classes
from qbheat_mm.errors import UserError

from ..helpers.exports import (
    NAMES,
    coco,
    number_box,
    read_boxes,
    read_splits,
    words,
    write_each,
    write_image,
    write_json,
    write_numbered,
    write_yolo,
)

MISLEADING = ['train/test_1.png', 'train/val_2.png', 'train/3.png',
              'valid/train_4.png', 'valid/5.png']


def test_names_of_images_do_not_decide(tmp_path):
    write_numbered(tmp_path / 'pets', MISLEADING)
    write_each('yolo', tmp_path / 'pets', MISLEADING)
    prepare_boxes(str(tmp_path / 'pets'), str(tmp_path / 'out'))
    assert read_splits(tmp_path / 'out') == {
        name: 'train' if name.startswith('train') else 'val'
        for name in MISLEADING}


def test_json_files_named_like_splits_do_not_decide(tmp_path):
    write_numbered(tmp_path / 'pets', MISLEADING)
    write_each('labelme', tmp_path / 'pets', MISLEADING)
    prepare_boxes(str(tmp_path / 'pets'), str(tmp_path / 'out'))
    assert list(read_splits(tmp_path / 'out').values()).count('val') == 2


def test_folders_of_images_decide_if_one_file_lists_all(tmp_path):
    write_numbered(tmp_path / 'pets', MISLEADING)
    write_json(tmp_path / 'pets/labels.json', coco(MISLEADING))
    prepare_boxes(str(tmp_path / 'pets'), str(tmp_path / 'out'))
    assert list(read_splits(tmp_path / 'out').values()).count('val') == 2


@pytest.mark.parametrize('form', ['coco', 'yolo', 'voc', 'paddle'])
def test_an_image_of_two_splits_is_trained_on(form, tmp_path):
    root = tmp_path / 'pets'
    names = [f'images/{name}' for name in NAMES]
    write_numbered(root, names)
    splits = dict(train=names[:4], val=names[3:])
    if form == 'coco':
        for split, listed in splits.items():
            content = coco(names)
            content['images'] = [image for image in content['images']
                                 if image['file_name'] in listed]
            ids = {image['id'] for image in content['images']}
            content['annotations'] = [
                box for box in content['annotations']
                if box['image_id'] in ids]
            write_json(root / f'{split}.json', content)
    elif form == 'yolo':
        write_yolo(root, {f'labels/{name[7]}.txt': i
                          for i, name in enumerate(names)}, classes='')
        (root / 'data.yaml').write_text(
            'names: [cat]\ntrain: train.txt\nval: val.txt\n')
        for split, listed in splits.items():
            (root / f'{split}.txt').write_text('\n'.join(listed))
    elif form == 'paddle':
        write_each('voc', root / 'Annotations')
        for split, listed in splits.items():
            (root / f'{split}_list.txt').write_text('\n'.join(
                f'{name} Annotations/{name[7]}.xml' for name in listed))
    else:
        write_each('voc', root / 'Annotations')
        (root / 'ImageSets/Main').mkdir(parents=True)
        for split, listed in splits.items():
            (root / f'ImageSets/Main/{split}.txt').write_text('\n'.join(
                name[7] for name in listed))
    report = prepare_boxes(str(root), str(tmp_path / 'out'))
    found = read_splits(tmp_path / 'out')
    assert [found[name] for name in names] == 4 * ['train'] + 2 * ['val']
    assert read_boxes(tmp_path / 'out')[names[3]] == [('cat', *number_box(3))]
    assert '1 corrected images in two splits' in words(report)


def write_lists(root, pattern, line):
    """List images by split, each with its name or stem in a line."""
    for split, names in dict(train=NAMES[:3], val=NAMES[3:5],
                             test=NAMES[5:]).items():
        path = root / pattern.format(split)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('\n'.join(
            line.format(name=name, stem=name[0]) for name in names))


def split_letters(out):
    """The images of each split, by the first letter of their names."""
    letters = dict.fromkeys(('train', 'val', 'test'), '')
    for name, split in sorted(read_splits(out).items()):
        letters[split] += os.path.basename(name)[0]
    return letters


SPLIT = dict(train='abc', val='de', test='f')


@pytest.mark.parametrize('lists, line', [
    ('{}.txt', 'obj/{name}'), ('{}.txt', './obj/{name}'),
    ('{}.txt', '/content/darknet/data/obj/{name}'),
    ('{}.txt', '{stem}')])
@pytest.mark.parametrize('classes', [
    'classes.txt', 'obj/classes.txt', 'obj.names', 'data.yaml'])
def test_lists_beside_the_classes_of_yolo_decide(lists, line, classes,
                                                 tmp_path):
    root = tmp_path / 'pets'
    names = [f'obj/{name}' for name in NAMES]
    write_numbered(root, names)
    write_each('yolo', root, names)
    (root / 'classes.txt').unlink()
    (root / classes).write_text(
        'names: [cat]\n' if classes == 'data.yaml' else 'cat\n')
    if classes == 'obj.names':
        (root / 'obj.data').write_text('classes = 1\nvalid = data/val.txt\n')
    write_lists(root, lists, line)
    prepare_boxes(str(root), str(tmp_path / 'out'))
    assert split_letters(tmp_path / 'out') == SPLIT


def test_label_files_of_images_named_like_splits_are_no_lists(tmp_path):
    """Nor are notes. A photograph of a train has train.txt."""
    names = [*NAMES, 'train.jpg', 'test.jpg', 'val_1.jpg']
    write_numbered(tmp_path / 'pets', names)
    write_each('yolo', tmp_path / 'pets', names)
    (tmp_path / 'pets/test.txt').write_text('')
    (tmp_path / 'pets/val_notes.txt').write_text('Sunny, but windy.\n')
    prepare_boxes(str(tmp_path / 'pets'), str(tmp_path / 'out'))
    boxes = read_boxes(tmp_path / 'out')
    assert boxes.pop('test.jpg') == [] and len(boxes) == 8
    assert all(boxes.values())


@pytest.mark.parametrize('lists, line', [
    ('{}.txt', '{stem}'), ('{}.txt', '{name}'), ('splits/{}.txt', '{stem}'),
    ('{}_list.txt', './JPEGImages/{name} ./Annotations/{stem}.xml'),
    ('{}.txt', 'JPEGImages/{name}'), ('{}.txt', 'Annotations/{stem}.xml'),
    ('{}.txt', 'C:\\pets\\JPEGImages\\{name}')])
def test_lists_of_voc_outside_imagesets_decide(lists, line, tmp_path):
    root = tmp_path / 'pets'
    write_numbered(root / 'JPEGImages', NAMES)
    write_each('voc', root / 'Annotations')
    (root / 'test_notes.txt').write_text('Photographed by a and b.\n')
    write_lists(root, lists, line)
    prepare_boxes(str(root), str(tmp_path / 'out'))
    assert split_letters(tmp_path / 'out') == SPLIT


def test_lists_of_other_tasks_of_voc_do_not_decide(tmp_path):
    root = tmp_path / 'pets'
    write_numbered(root / 'JPEGImages', NAMES)
    write_each('voc', root / 'Annotations')
    write_lists(root, 'ImageSets/Main/{}.txt', '{stem}')
    (root / 'ImageSets/Segmentation').mkdir()
    (root / 'ImageSets/Segmentation/train.txt').write_text('e\nf\n')
    prepare_boxes(str(root), str(tmp_path / 'out'))
    assert split_letters(tmp_path / 'out') == SPLIT


@pytest.mark.parametrize('parts', [('valid', 'test'), ('val', 'testing')])
def test_training_images_are_required(parts, tmp_path):
    for i in range(8):
        write_image(tmp_path / f'pets/{parts[i % 2]}/{"ab"[i // 4]}/{i}.png',
                    i)
    with pytest.raises(UserError, match='give the training images as well'):
        prepare_classes(str(tmp_path / 'pets'), str(tmp_path / 'out'))
    assert not (tmp_path / 'out').exists()


@pytest.mark.parametrize('name', ['@eaDir', '.@__thumb', 'thumbs'])
@pytest.mark.parametrize('form', ['coco', 'yolo', 'voc', 'labelme',
                                  'classes'])
def test_thumbnails_are_counted_and_in_no_split(form, name, tmp_path):
    """Of a NAS or a gallery, beside each folder of images."""
    root = tmp_path / 'pets'
    for i in range(12):
        path = f'{"cat" if i % 2 else "dog"}/{i:04}.jpg'
        write_image(root / path, i)
        for side in ('S', 'M'):
            write_image(root / os.path.dirname(path) / name
                        / f'{i:04}.jpg/SYNOPHOTO_THUMB_{side}.jpg', i)
    photos = sorted(str(path.relative_to(root))
                    for path in root.glob('*/*.jpg'))
    if form == 'classes':
        report = prepare_classes(str(root), str(tmp_path / 'out'))
        found = [os.path.relpath(os.path.realpath(path), root)
                 for path in (tmp_path / 'out').rglob('*.jpg')]
        assert sorted(found) == photos
    else:
        if form == 'coco':
            write_json(root / 'labels.json', coco(photos))
        else:
            write_each(form, root, photos)
        report = prepare_boxes(str(root), str(tmp_path / 'out'))
        assert sorted(read_splits(tmp_path / 'out')) == photos
    assert f"24 files skipped in folders '{name}'" in words(report)
