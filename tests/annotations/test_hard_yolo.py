# Copyright (c) QB-Heat MM authors. All rights reserved.
"""YOLO's files as users reported them, in their tools' trackers.

Each is read right, or refused in one line. Names such as ``cvat#7523`` tell
where it was reported.
"""
import pytest

from qbheat_mm.errors import UserError

from .conftest import CAT, DOG


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
