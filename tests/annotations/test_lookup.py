# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Boxes stay on the image that the export names, or the image is missing."""
import os

import pytest

from qbheat_mm.apis import prepare_boxes, prepare_classes
from qbheat_mm.errors import UserError

from ..helpers.exports import (
    NAMES,
    coco,
    number_box,
    prepare,
    read_splits,
    rectangle,
    write_each,
    write_image,
    write_json,
    write_labelme,
    write_numbered,
    write_voc,
    write_yolo,
)


def count(report, kind):
    """The numbers of a kind of the account, by reason."""
    return {reason: count.number for (other, reason), count in
            report.account.items() if other == kind}


def numbered(names):
    return {name: [('cat', *number_box(i))] for i, name in enumerate(names)}


def test_other_folders_do_not_replace_missing_images(tmp_path):
    root = tmp_path / 'pets'
    names = [f'day/{name}' for name in NAMES]
    write_numbered(root, names[1:])
    write_numbered(root / 'night', NAMES)
    write_json(root / 'labels.json', coco(names))
    report, boxes = prepare(tmp_path)
    assert boxes == {f'day/{name}': found for name, found in
                     [*numbered(NAMES).items()][1:]}
    assert count(report, 'images skipped') == {
        'whose file is missing, or one of several of this name': 1}
    assert count(report, 'boxes skipped') == {
        'of skipped images': 1}


@pytest.mark.parametrize('backup', ['JPEGImages/old', 'backup'])
def test_voc_images_have_one_folder(backup, tmp_path):
    root = tmp_path / 'pets'
    write_numbered(root / 'JPEGImages', NAMES[1:])
    write_numbered(root / backup, NAMES)
    write_each('voc', root / 'Annotations')
    report, boxes = prepare(tmp_path)
    assert len(boxes) == 5 and 'images skipped' in str(report)
    assert not any(name.startswith(backup) for name in boxes)


def test_equal_names_in_folders_follow_the_folders(tmp_path):
    root = tmp_path / 'pets'
    names = [f'photos/{folder}/{name}' for folder in ('x', 'y')
             for name in NAMES[:3]]
    write_numbered(root, names)
    (root / names[0]).unlink()
    for i, name in enumerate(names):
        write_voc(root / f'Annotations/{name[7:-4]}.xml', name[9:], i)
    _, boxes = prepare(tmp_path)
    expected = numbered(names)
    del expected[names[0]]
    assert boxes == expected


def test_a_tail_of_the_path_may_be_enough(tmp_path):
    root = tmp_path / 'pets'
    names = [f'photos/{name}' for name in NAMES]
    write_numbered(root, names)
    write_json(root / 'labels.json', coco(
        [f'C:\\Users\\me\\photos\\{name}' for name in NAMES]))
    report, boxes = prepare(tmp_path)
    assert boxes == numbered(names)
    assert count(report, 'corrected') == {
        'images found by a tail of their path': 6}


def test_yolo_labels_do_not_go_to_neighbors(tmp_path):
    root = tmp_path / 'pets'
    images = ['images/street.png', 'images/road.2.png', 'images/001.png',
              'images/20240115-x.png', 'images/20240301-x.png']
    write_numbered(root, images)
    write_yolo(root, {
        'labels/street.2.txt': 0, 'labels/road.2.txt': 1,
        'labels/20230101-001.txt': 2, 'labels/20240301-x.txt': 4,
        'labels/0123abcd-20240115-x.txt': 3})
    report, boxes = prepare(tmp_path)
    expected = numbered(images)
    for i in (0, 2, 3):
        expected[images[i]] = []
    assert boxes == expected
    assert count(report, 'boxes skipped') == {
        'of label files without an image': 3}


def test_a_date_is_no_hash(tmp_path):
    names = [f'202401{10 + i}-0800.jpg' for i in range(6)]
    write_numbered(tmp_path / 'pets', [*names[:5], '20240301-0800.jpg'])
    write_json(tmp_path / 'pets/labels.json', coco(names))
    report, boxes = prepare(tmp_path)
    assert boxes == {name: found for name, found in numbered(names).items()
                     if name != names[5]}


def test_hashes_of_label_studio_are_not_part_of_names(tmp_path):
    """Unless a file has the name with the hash."""
    names = [f'0123abc{i}-{name}' for i, name in enumerate(NAMES)]
    files = [names[0], *NAMES]
    write_numbered(tmp_path / 'pets/images', files)
    write_json(tmp_path / 'pets/result.json', coco(
        [f'images/{name}' for name in names],
        info=dict(contributor='Label Studio')))
    _, boxes = prepare(tmp_path)
    expected = numbered([names[0], *NAMES[1:]])
    assert boxes == {f'images/{name}': found
                     for name, found in expected.items()}


def test_labelme_means_its_image_path(tmp_path):
    root = tmp_path / 'pets'
    write_numbered(root / 'photos', NAMES)
    for i, name in enumerate(NAMES):
        # JSON files have the names of other images.
        write_labelme(root / f'json/{NAMES[i - 1][0]}.json',
                      f'..\\photos\\{name}', [rectangle(i)])
    _, boxes = prepare(tmp_path)
    assert boxes == {f'photos/{name}': found
                     for name, found in numbered(NAMES).items()}


def test_voc_means_its_filename(tmp_path):
    root = tmp_path / 'pets'
    write_numbered(root, NAMES)
    for i, name in enumerate(NAMES):
        write_voc(root / f'{NAMES[i - 1][0]}.xml', name, i)
    _, boxes = prepare(tmp_path)
    assert boxes == numbered(NAMES)


def test_renamed_images_are_those_of_their_annotation_files(tmp_path):
    root = tmp_path / 'pets'
    write_numbered(root, NAMES)
    for i, name in enumerate(NAMES):
        write_voc(root / f'{name[0]}.xml', f'IMG_{i}.jpg', i)
    report, boxes = prepare(tmp_path)
    assert boxes == numbered(NAMES)
    assert 'images named like their annotation files' in count(
        report, 'corrected')


def test_a_neighbor_folder_may_begin_with_the_same_name(tmp_path):
    write_numbered(tmp_path / 'pets_images/train', NAMES)
    write_each('yolo', tmp_path / 'pets/labels/train')
    _, boxes = prepare(tmp_path, images=str(tmp_path / 'pets_images'))
    assert boxes == numbered([f'train/{name}' for name in NAMES])


@pytest.mark.parametrize('names', [
    ['20240115-0800', '20240116-0800', '20240117-0800'],
    ['0123abcd-12ab-34cd-a456', '0123abce-12ab-34cd-a456', '0123abcf-9'],
    ['north/a', 'north/b', 'south/a'],
    ['at home 1', 'at home 0', 'at home 2']])
@pytest.mark.parametrize('train', ['train.txt', 'train_2012.txt'])
def test_lists_of_voc_give_the_splits(names, train, tmp_path):
    root = tmp_path / 'pets'
    for i, name in enumerate(names):
        write_image(root / f'JPEGImages/{name}.jpg', i)
        write_voc(root / f'Annotations/{name}.xml',
                  f'{name.rpartition("/")[2]}.jpg', i)
    lists = root / 'ImageSets/Main'
    lists.mkdir(parents=True)
    (lists / train).write_text('\n'.join(names[:2]))
    (lists / 'val.txt').write_text(names[2])
    (lists / 'cat_val.txt').write_text(''.join(
        f'{name} {sign}\n' for name, sign in zip(names, ('-1', ' 1', ' 0'))))
    prepare(tmp_path)
    assert list(read_splits(tmp_path / 'out').values()).count('train') == 2


def test_folders_of_yolo_hold_images_of_the_export(tmp_path):
    root = tmp_path / 'pets'
    for split, names in (('train', NAMES[:4]), ('valid', NAMES[4:])):
        write_numbered(root / split / 'images', names)
        write_yolo(root, {f'{split}/labels/{name[0]}.txt': i
                          for i, name in enumerate(names)}, classes='')
    write_numbered(tmp_path / 'valid/images', ['other.jpg'])
    (root / 'data.yaml').write_text('names: [cat]\ntrain: ../train/images\n'
                                    'val: ../valid/images\n')
    prepare(tmp_path)
    splits = read_splits(tmp_path / 'out')
    assert splits == {**{f'train/images/{name}': 'train'
                         for name in NAMES[:4]},
                      **{f'valid/images/{name}': 'val' for name in NAMES[4:]}}


@pytest.mark.parametrize('files', [
    ['{}.jpg', '{}.png'], ['train/{}.jpg', 'test/{}.jpg']])
def test_files_that_match_twice_are_not_called_missing_only(files, tmp_path):
    root = tmp_path / 'pets'
    names = [str(number) for number in range(6)]
    for number, name in enumerate(names):
        for place in files:
            write_image(root / 'photos' / place.format(name), number)
    write_json(root / 'labels.json', coco(names))
    with pytest.raises(UserError, match='6 of 6 images are missing or not '
                       "unique .e.g. '0' in .*, or write full names"):
        prepare(tmp_path)


@pytest.mark.parametrize('call', [prepare_boxes, prepare_classes])
def test_names_that_are_not_utf8_are_refused(call, tmp_path):
    write_numbered(tmp_path / 'pets/cat', NAMES)
    os.rename(os.fsencode(tmp_path / 'pets/cat/a.jpg'),
              os.fsencode(tmp_path / 'pets/cat') + b'/\xc1\xe3.jpg')
    with pytest.raises(UserError, match='udcc1.*is not UTF-8: rename it'):
        call(str(tmp_path / 'pets'), str(tmp_path / 'out'))
