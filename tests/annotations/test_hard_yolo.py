# Copyright (c) QB-Heat MM authors. All rights reserved.
"""YOLO's files as users reported them, in their tools' trackers.

Each is read right, or refused in one line. Names such as ``cvat#7523`` tell
where it was reported.
"""
import shutil
import unicodedata

import numpy as np
import pytest

from qbheat_mm.apis import prepare_boxes
from qbheat_mm.errors import UserError

from ..helpers.exports import (
    CAT,
    DOG,
    NAMES,
    read_splits,
    write_numbered,
    write_yolo,
)


def test_two_images_and_one_label_file_of_their_old_name(export):
    """label-studio-converter#132: labels of equal names overwrite."""
    export.pairs()
    export.text('classes.txt', 'cat\ndog\n')
    export.image('images/0000_7436.jpg')
    export.image('images/0000_6dd1.jpg')
    export.yolo('labels/0000.txt', CAT, DOG)
    report = export.check()
    assert report.account.skipped('boxes') == 2


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


def test_boxes_with_a_confidence_are_refused(export):
    """ultralytics#1170: save_conf adds a sixth number."""
    export.pairs(more=' 0.93')
    export.text('classes.txt', 'cat\ndog\n')
    export.refuse('labels.*a box needs 4 numbers')


def test_an_empty_line_in_classes_txt_is_a_class(export):
    """Ids count lines: without the empty one, dogs would be birds."""
    names = ('cat', '', 'dog', 'bird')
    for stem in 'abcd':
        export.image(f'images/{stem}.jpg', CAT, DOG)
        export.yolo(f'labels/{stem}.txt', CAT, DOG, names=names)
    export.text('classes.txt', '\n'.join(names))
    export.check()


def test_a_byte_order_mark_is_no_part_of_a_name(export):
    """Notepad and PowerShell begin files with it."""
    export.pairs()
    export.text('classes.txt', '\ufeffcat\r\ndog\r\n')
    export.check()


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


def test_label_files_in_other_case(export):
    """Windows does not tell Photo.jpg's photo.txt from Photo.txt."""
    export.pairs()
    export.text('classes.txt', 'cat\ndog\n')
    export.image('images/Photo.jpg', CAT, DOG)
    export.yolo('labels/photo.txt', CAT, DOG)
    report = export.check()
    assert report.account.skipped('boxes') == 0


def test_a_missing_image_keeps_its_label_file(export):
    """The boxes of img_1.jpg are not those of the negative IMG_1.jpg."""
    export.pairs()
    export.image('images/IMG_1.jpg')
    export.yolo('labels/img_1.txt', CAT, DOG)
    names = ('one', 'two', 'three', 'four', 'IMG_1', 'img_1')
    export.text('train.txt', '\n'.join(f'./images/{n}.jpg' for n in names))
    export.text('data.yaml', 'train: train.txt\nnames: [cat, dog]\n')
    report = export.check()
    assert report.account.skipped('boxes') == 2


PREDICTIONS = ['runs/detect/exp', 'runs/segment/predict2', 'pred', 'a/b/c']


@pytest.mark.parametrize('place', PREDICTIONS)
@pytest.mark.parametrize('list_of_classes', ['classes.txt', 'data.yaml'])
def test_predictions_are_no_training_data(place, list_of_classes, export):
    """Ultralytics writes drawings and, with save_txt, label files."""
    export.pairs()
    texts = {'classes.txt': 'cat\ndog\n', 'data.yaml': 'names: [cat, dog]\n'}
    export.text(list_of_classes, texts[list_of_classes])
    for stem in ('one', 'two'):
        export.unlisted(f'{place}/{stem}.jpg')
        export.yolo(f'{place}/labels/{stem}.txt', CAT)
    export.refuse(f"(?=.*'[^']*/export/labels').*/{place}/labels'.*'train'")
    export.text('data.yaml', 'train: images\nnames: [cat, dog]\n')
    export.check()


@pytest.mark.parametrize('drawing, photo', [
    ('labels/one.png', 'images/one.jpg'), ('images/one.png', 'images/one.jpg'),
    ('images/one.jpeg', 'images/one.jpg')])
@pytest.mark.parametrize('listed', [False, True])
def test_a_label_file_of_two_images_is_refused(drawing, photo, listed, export):
    export.pairs()
    export.unlisted(drawing)
    places = '[images, labels]' if 'labels' in drawing else 'images'
    export.text('data.yaml', f'names: [cat, dog]\ntrain: {places}\n' if listed
                else 'names: [cat, dog]\n')
    export.refuse(rf"labels/one.txt' belongs to both .*{photo[:-4]}")


def test_drawings_of_images_that_are_listed_do_no_harm(export):
    export.pairs()
    export.unlisted('labels/one.png')
    export.text('data.yaml', 'names: [cat, dog]\ntrain: images\n')
    export.check()


def test_splits_and_folders_are_of_one_root(export):
    """Also those within images and labels."""
    names = ['train/images/a/one', 'train/images/two', 'valid/images/b/one',
             'valid/images/two']
    for name in names:
        export.image(f'pets/{name}.jpg', CAT, DOG)
        export.yolo(f'pets/{name}.txt'.replace('images', 'labels'), CAT, DOG)
    export.text('classes.txt', 'cat\ndog\n')
    export.check()


@pytest.mark.parametrize('name, text, match', [
    ('classes.txt', 'cat\ndog\ncat\n', "ids 0 and 2 are both class 'cat'"),
    ('data.yaml', 'names: [cat, dog, dog]\n', "ids 1 and 2 are .* 'dog'"),
    ('data.yaml', 'names:\n  0: cat\n  3: cat\n', 'ids 0 and 3'),
    ('data.yaml', 'names:\n  0: cat\n  0: dog\n', "has '0' twice"),
    ('data.yaml', 'names: [cat, dog]\nnames: [dog, cat]\n',
     "has 'names' twice"),
    ('obj.names', 'cat\ncat\n', 'ids 0 and 1')])
def test_names_given_twice_are_refused(name, text, match, export):
    export.pairs()
    export.text(name, text)
    export.refuse(f"{name}'.*{match}")


@pytest.mark.parametrize('name, text', [
    ('labels/classes.txt', 'dog\ncat\n'), ('classes.txt', 'cat\nbird\ndog\n')])
def test_two_files_that_swap_classes_are_refused(name, text, export):
    """Such as labelImg's list and a data.yaml that was written later."""
    export.pairs()
    export.text('data.yaml', 'train: images\nnames: [cat, dog]\n')
    export.text('classes.txt', 'cat\ndog\nperson\n')
    export.check()
    shutil.rmtree(export.out)
    export.text(name, text)
    export.refuse(f"data.yaml' calls class . '...', but '.*{name}'")


@pytest.mark.parametrize('files', [
    {'data.yaml': 'nc: 3\nnames: [cat, dog]\n'},
    {'obj.names': 'cat\ndog\n', 'obj.data': 'classes = 3\n'}])
def test_a_missing_name_shifts_no_others(files, export):
    export.pairs()
    for name, text in files.items():
        export.text(name, text)
    export.refuse('states 3 classes, but names 2')


@pytest.mark.parametrize('names', ['cat\ndog\n', 'class 1\nclass 2\n'])
def test_ids_that_count_from_1_are_refused(names, export):
    for stem in ('one', 'two', 'three', 'four'):
        export.image(f'images/{stem}.jpg')
        export.yolo(f'labels/{stem}.txt', CAT, DOG, names=('', 'cat', 'dog'))
    export.text('classes.txt', names)
    export.refuse('seem to number classes from 1')


LAUGHS = 'a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n' + ''.join(
    f'a{i}: &a{i} [{", ".join(10 * [f"*a{i - 1}"])}]\n' for i in range(1, 9))


@pytest.mark.parametrize('text', [
    'names: [cat, *a8]\n', 'names: {0: cat, 1: *a8}\n', 'names: *a8\n',
    'names: [cat, dog]\ntrain: *a8\n', 'names: [cat, dog]\npath: *a8\n'])
def test_aliases_make_no_endless_names(text, export):
    """A billion laughs: ten lists of ten lists of ..."""
    export.pairs()
    export.text('data.yaml', LAUGHS + text)
    with pytest.raises(UserError, match='data.yaml.*is a list') as error:
        export.check()
    assert len(str(error.value)) < 500


def test_aliases_may_name_a_split(export):
    export.pairs()
    export.text('data.yaml',
                'train: &images images\nval: *images\nnames: [cat, dog]\n')
    export.check()


def test_reasons_are_those_of_the_example(export):
    """The image of a label file may be there, but in no list."""
    export.pairs()
    export.text('data.yaml', 'train: images\nnames: [cat, dog]\n')
    export.unlisted('others/images/five.jpg')
    export.yolo('others/labels/five.txt', CAT, DOG)
    export.yolo('labels/six.txt', CAT)
    account = export.check().account
    unlisted = account['boxes skipped',
                       'of label files whose image is in no list']
    assert unlisted.number == 2 and 'five.txt' in unlisted.example
    without = account['boxes skipped', 'of label files without an image']
    assert without.number == 1 and 'six.txt' in without.example


def test_boxes_of_unknown_classes_are_where_the_line_says(export):
    export.pairs()
    for stem, number in (('train/images/a', 3), ('test/images/b', 1)):
        export.image(f'{stem}.jpg')
        export.text(f'{stem}.txt'.replace('images', 'labels'),
                    number * '5 0.5 0.5 0.2 0.2\n')
    export.text('data.yaml', 'names: [cat, dog]\ntrain: [images, '
                'train/images]\ntest: test/images\n')
    export.refuse("4 boxes .3 of them on images of '[^']*/train/images/', "
                  "such as '[^']*a.jpg'. are of 'unlisted class 5'")


@pytest.mark.parametrize('points', [1, 2, 3, 17])
@pytest.mark.parametrize('seed', range(4))
def test_poses_of_pairs_without_their_shape_are_no_polygons(points, seed,
                                                            export):
    random = np.random.default_rng(seed)
    for stem in ('one', 'two', 'three', 'four'):
        export.image(f'images/{stem}.jpg')
        rows = []
        for _ in range(5):
            size = random.uniform(0.1, 0.5, 2)
            center = random.uniform(size / 2, 1 - size / 2)
            places = random.uniform(-0.5, 0.5, (points, 2)) * size + center
            numbers = [*center, *size, *places.ravel()]
            rows.append('0 ' + ' '.join(f'{x:.5f}' for x in numbers))
        export.text(f'labels/{stem}.txt', '\n'.join(rows))
    export.text('data.yaml', 'train: images\nnames: [cat, dog]\n')
    export.refuse(rf'kpt_shape: \[{points}, 2\]')


@pytest.mark.parametrize('corners', [3, 4, 5, 12])
@pytest.mark.parametrize('seed', range(4))
def test_polygons_of_equal_numbers_are_polygons(corners, seed, export):
    random = np.random.default_rng(seed)
    for stem in ('one', 'two', 'three', 'four'):
        objects, rows = [], []
        for _ in range(5):
            radius = random.uniform(0.05, 0.2)
            center = random.uniform(radius, 0.6, 2)
            angles = np.sort(random.uniform(0, 2 * np.pi, corners))
            places = radius * np.stack([np.cos(angles), np.sin(angles)], 1)
            places = np.round(places + center, 6)
            low, high = places.min(0) * (64, 48), places.max(0) * (64, 48)
            if min(high - low) < 1:
                continue
            objects.append(('cat', *low, *(high - low)))
            rows.append('0 ' + ' '.join(f'{x:.6f}' for x in places.ravel()))
        export.image(f'images/{stem}.jpg', *objects)
        export.text(f'labels/{stem}.txt', '\n'.join(rows))
    export.text('data.yaml', 'train: images\nnames: [cat, dog]\n')
    export.check()


@pytest.mark.parametrize('form', ['NFC', 'NFD'])
def test_names_that_macos_decomposed(form, export):
    """Archives of macOS spell letters with accents in two characters."""
    for stem in ('Bücher', 'Öl', 'Spaß', 'Café'):
        name = unicodedata.normalize(form, stem)
        export.image(f'images/{name}.jpg', CAT)
        export.yolo(f'labels/{stem}.txt', CAT)
    export.text('data.yaml', 'train: images\nnames: [cat, dog]\n')
    export.check()


@pytest.mark.parametrize('root', ['{}/pets', '/elsewhere'])
@pytest.mark.parametrize('splits', [
    'train: images/train\nval: images/val\n', 'train: images/train\n',
    'train: train.txt\nval: val.txt\n'])
def test_a_yaml_file_outside_of_its_folder_needs_images(root, splits,
                                                        tmp_path):
    """Ultralytics reads the folder that its path names."""
    data = tmp_path / 'pets'
    for split in ('train', 'val'):
        names = [f'images/{split}/{name}' for name in NAMES]
        write_numbered(data, names)
        write_yolo(data, {name.replace('images', 'labels').replace(
            'jpg', 'txt'): i for i, name in enumerate(names)}, classes='')
        (data / f'{split}.txt').write_text('\n'.join(names))
    (tmp_path / 'cfg').mkdir()
    file = tmp_path / 'cfg/mine.yaml'
    file.write_text(f'path: {root.format(tmp_path)}\n{splits}names: [cat]\n')
    for source in (file, file.parent):
        with pytest.raises(UserError, match="no image of '[^']*mine.yaml' has "
                           "a label file in '[^']*cfg'.*--images"):
            prepare_boxes(str(source), str(tmp_path / 'out'))
    prepare_boxes(str(file), str(tmp_path / 'out'), images=str(data))
    assert {*read_splits(tmp_path / 'out').values()} == {'train', 'val'}


@pytest.mark.parametrize('line', [
    '0 48 32 30 20', '0 0.5 32 0.1 0.2', '0 1920 1080 12.5 8',
    '0 0.4 0.4 0.5 2e1', '0 48 32 30 20 0.5 0.5 2 0.1 0.1 1'])
def test_pixels_are_no_fractions(line, export):
    export.pairs()
    more = 'kpt_shape: [2, 3]\n' if len(line.split()) > 5 else ''
    export.text('data.yaml', f'train: images\nnames: [cat, dog]\n{more}')
    if more:
        export.pairs(more=' 0.1 0.1 2 0.2 0.3 1')
    export.text('labels/one.txt', line)
    export.refuse(f"labels/one.txt: {line}': .* is not normalized; write "
                  'center x, center y, width and height as fractions')


def test_corners_as_fractions_are_told_from_boxes(export):
    for stem in ('one', 'two', 'three', 'four'):
        export.image(f'images/{stem}.jpg')
        export.text(f'labels/{stem}.txt', '0 0.6 0.6 0.9 0.9\n')
    export.text('data.yaml', 'train: images\nnames: [cat, dog]\n')
    export.refuse("four.jpg'.* center x, center y, width and height as "
                  'fractions of the image$')


@pytest.mark.parametrize('split, labels', [
    ('val', {}), ('val', {'valid/label/x.txt': '0 .5 .5 .2 .2'}),
    ('val', {'valid/labels/x.txt': ''}), ('train', {})])
def test_a_split_without_boxes_is_named(split, labels, export):
    folders = {'train': 'train', 'val': 'valid'}
    for name, folder in folders.items():
        for stem in 'xyz':
            box = [] if name == split else [CAT, DOG]
            export.image(f'{folder}/images/{stem}.jpg', *box)
            if box:
                export.yolo(f'{folder}/labels/{stem}.txt', *box)
    for name, text in labels.items():
        export.text(name, text)
    export.text('data.yaml', 'train: train/images\nval: valid/images\n'
                'names: [cat, dog]\n')
    export.refuse(f"none of the 3 images for {split} .e.g. '[^']*"
                  f"{folders[split]}/images/x.jpg'. has a box: ")
