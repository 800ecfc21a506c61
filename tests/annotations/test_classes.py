# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Every class keeps its name, in boxes, folders and lists."""
import json

import pytest

from qbheat_mm.apis import prepare_boxes, prepare_classes
from qbheat_mm.errors import UserError

from .exports import read_boxes, write_image, write_numbered, write_yolo

LABELS = ['mel', 'nv']


@pytest.fixture
def notes(tmp_path):
    """Label Studio's YOLO, whose ids are not the order of classes.txt."""
    root = tmp_path / 'pets'
    names = [f'images/{letter}.jpg' for letter in 'abcdef']
    write_numbered(root, names)
    write_yolo(root, {f'labels/{name[7]}.txt': i
                      for i, name in enumerate(names)})
    (root / 'classes.txt').write_text('truck\ncat\n')
    (root / 'notes.json').write_text(json.dumps(dict(categories=[
        dict(id=2, name='truck'), dict(id=0, name='cat')])))
    return root


def test_ids_of_label_studio_are_those_of_its_notes(notes, tmp_path):
    prepare_boxes(str(notes), str(tmp_path / 'out'))
    found = read_boxes(tmp_path / 'out').values()
    assert {box[0] for boxes in found for box in boxes} == {'cat'}


def test_lists_of_classes_that_differ_are_refused(notes, tmp_path):
    (notes / 'classes.txt').write_text('truck\ndog\n')
    with pytest.raises(UserError, match='dog.*delete the wrong one'):
        prepare_boxes(str(notes), str(tmp_path / 'out'))


def test_poses_are_no_polygons(notes, tmp_path):
    (notes / 'labels/a.txt').write_text('0 .5 .5 .2 .2 .4 .4 2 .5 .5 2\n')
    with pytest.raises(UserError, match='poses need kpt_shape'):
        prepare_boxes(str(notes), str(tmp_path / 'out'))


def write_list(tmp_path, text, name='list.csv', files='{}.jpg'):
    for i in range(12):
        write_image(tmp_path / 'photos' / files.format(i), i)
    (tmp_path / 'photos' / name).write_text(text)
    return str(tmp_path / 'photos' / name)


def lines(text, header=''):
    """A line for each of twelve images, perhaps after a header."""
    return header + ''.join(text.format(i, LABELS[i % 2], i % 2) + '\n'
                            for i in range(12))


@pytest.mark.parametrize('text, name, files', [
    (lines('{}.jpg,{}'), 'a.csv', '{}.jpg'),
    (lines('{1};{0}.jpg'), 'a.csv', '{}.jpg'),
    (lines('{},{}', 'id,label\n'), 'train.csv', 'train/{}.jpg'),
    (lines('{},{}'), 'train.csv', 'train/{}.jpg'),
    (lines('000{0}c.d,{1},{2},0.5', 'image_id,label,target_id,score\n'),
     'a.csv', '000{}c.d.png'),
    (lines('photo {}.jpg {}'), 'train.txt', 'photo {}.jpg'),
    (lines('"a, {}.jpg",{}', 'path,class\n'), 'a.csv', 'a, {}.jpg')])
def test_lists_are_read(text, name, files, tmp_path):
    prepare_classes(write_list(tmp_path, text, name, files),
                    str(tmp_path / 'out'))
    for label, start in zip(LABELS, (0, 1)):
        found = sorted(path.name for path in (tmp_path / 'out').glob(
            f'*/{label}/*'))
        assert found == sorted(files.format(i).rpartition('/')[2]
                               for i in range(start, 12, 2))


@pytest.mark.parametrize('header', ['', 'id,label\n'])
def test_numbers_may_be_ids_and_classes(header, tmp_path):
    """Also where images have the names of both."""
    prepare_classes(write_list(tmp_path, lines('{0},{2}', header)),
                    str(tmp_path / 'out'))
    assert len([*(tmp_path / 'out').glob('*/1/*.jpg')]) == 6


@pytest.mark.parametrize('folder', ['', 'meta'])
def test_numbers_are_lines_of_a_file_of_classes(folder, tmp_path):
    path = write_list(tmp_path, lines('{0}.jpg {2}'), 'train.txt')
    (tmp_path / 'photos' / folder).mkdir(exist_ok=True)
    classes = tmp_path / 'photos' / folder / 'classes.txt'
    classes.write_text('melanoma\nnevus\n')
    report = prepare_classes(path, str(tmp_path / 'out'))
    assert sorted(file.name for file in (tmp_path / 'out/train').iterdir()
                  ) == ['melanoma', 'nevus']
    assert 'class numbers that became names' in str(report)
    classes.write_text('melanoma\n')
    with pytest.raises(UserError, match='class 1, but .* names only 1'):
        prepare_classes(path, str(tmp_path / 'other'))


@pytest.mark.parametrize('text, problem', [
    ('', 'is empty'), ('\n\n', 'is empty'),
    (lines('{}.jpg'), 'has 1 cells'),
    ('0.jpg,a\n1.jpg,a,b\n', 'cells'),
    ('0.jpg,mel\n0.jpg,nv\n1.jpg,nv\n', "is both 'mel' and 'nv'"),
    (lines('x{}.jpg,{}'), 'keep one of image names')])
def test_lists_that_are_unclear_are_refused(text, problem, tmp_path):
    path = write_list(tmp_path, text)
    with pytest.raises(UserError, match=problem) as error:
        prepare_classes(path, str(tmp_path / 'out'))
    assert '\n' not in str(error.value)
    assert not (tmp_path / 'out').exists()


@pytest.mark.parametrize('name', ['.net', '..', 'a/b', '.', 'x' * 256])
def test_names_that_no_folder_can_have_are_refused(name, tmp_path):
    path = write_list(tmp_path, lines('{}.jpg,{}').replace('nv', name))
    with pytest.raises(UserError, match='cannot be the name of a folder'):
        prepare_classes(path, str(tmp_path / 'out'))
    assert not (tmp_path / 'out').exists()


def test_hidden_folders_are_counted(tmp_path):
    for i in range(12):
        write_image(tmp_path / f'in/{("a", "b", ".net")[i % 3]}/{i}.png', i)
    report = prepare_classes(str(tmp_path / 'in'), str(tmp_path / 'out'))
    words = ' '.join(str(report).split())
    assert "4 files skipped in folders '.net', which are hidden" in words


def test_names_that_may_be_several_labels_are_told(tmp_path):
    text = lines('{}.jpg,{}').replace('mel', 'scab rust').replace(
        'nv', 'scab; frog eye')
    report = prepare_classes(write_list(tmp_path, text),
                             str(tmp_path / 'out'))
    assert 'class names may be several labels' in str(report)


def test_broken_images_are_skipped(tmp_path):
    path = write_list(tmp_path, lines('{}.jpg,{}'))
    (tmp_path / 'photos/3.jpg').write_bytes(b'no image')
    (tmp_path / 'photos/4.jpg').unlink()
    report = prepare_classes(path, str(tmp_path / 'out'))
    assert report.account.skipped('images') == 2
    assert len([*(tmp_path / 'out').glob('*/*/*.jpg')]) == 10
