# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Every class keeps its name, in boxes, folders and lists."""
import json

import pytest

from qbheat_mm.apis import prepare_boxes, prepare_classes
from qbheat_mm.errors import UserError

from ..helpers.exports import (
    read_boxes,
    write_image,
    write_numbered,
    write_yolo,
)

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
    (lines('{};{};', 'file;animal;\n'), 'a.csv', '{}.jpg'),
    (lines('"a, {}.jpg",{}', 'path,class\n'), 'a.csv', 'a, {}.jpg')])
def test_lists_are_read(text, name, files, tmp_path):
    report = prepare_classes(write_list(tmp_path, text, name, files),
                             str(tmp_path / 'out'))
    assert ': 12 images, 2 classes' in report.title
    for label, start in zip(LABELS, (0, 1)):
        found = sorted(path.name for path in (tmp_path / 'out').glob(
            f'*/{label}/*'))
        assert found == sorted(files.format(i).rpartition('/')[2]
                               for i in range(start, 12, 2))


def written_to(out):
    """The label of each image, by its name."""
    return {path.name: path.parent.name for path in out.glob('*/*/*')}


#: Another number for each of twelve images.
OTHER = [(7 * i + 1) % 12 for i in range(12)]


@pytest.mark.parametrize('header, row', [
    (',image,label', '{other},{i}.jpg,{label}'),
    ('id,file,label', '{other},{i}.jpg,{number}'),
    ('label,image,Unnamed: 0', '{number},{i}.jpg,{other}'),
    ('', '{other},{i}.jpg,{label}'), ('', '{number};{i}.JPG;{other}'),
    (',file,animal', '{other},{i}.jpg,{label}'),
    (',image,label', '{other},{i}.tif,{label}'),
    ('url,id,label', 'https://a.b/x{other}.jpg,{i},{label}'),
    ('id,name,width,class', '{other},{i}.jpg,{i},{label}'),
    ('id,name,fold,class', '{i},lost {i},{number},{label}'),
    ('name,url,label', '{i}.jpg,https://a.b/{other}.html,{label}')])
def test_full_names_beat_numbers(header, row, tmp_path):
    """An index, ids or sizes may be the names of files without extension."""
    text = header + '\n' + ''.join(row.format(
        i=i, other=OTHER[i], label=LABELS[i % 2], number=i % 2) + '\n'
        for i in range(12))
    prepare_classes(write_list(tmp_path, text), str(tmp_path / 'out'))
    labels = LABELS if '{label}' in row else ['0', '1']
    assert written_to(tmp_path / 'out') == {
        f'{i}.jpg': labels[i % 2] for i in range(12)}


@pytest.mark.parametrize('header, row, files, named', [
    ('mask,image,label', 'b/{0}.png,{0}.jpg,{1}', 'b/{}.png',
     ['mask', 'image']),
    ('image,label,thumbnail', '{0}.jpg,{1},x{0}.jpg', 'x{}.jpg',
     ['image', 'thumbnail']),
    ('image,mask,label', '{0},m/{0}_mask.png,{1}', 'm/{}_mask.png',
     ['image', 'mask']),
    ('image,mask,label', 'lost{0}.jpg,{0}_mask.png,{1}', '{}_mask.png',
     ['image', 'mask']),
    ('image,mask,label', 'lost{0},{0}_mask.png,{1}', '{}_mask.png',
     ['image', 'mask']),
    (',id,label', '{2},{0},{1}', '{}.jpg', ["''", 'id']),
    ('nr,original,label', '{2},a{0}.jpg,{1}', '{}.jpg', ['nr', 'original'])])
def test_columns_that_name_images_equally_well_are_refused(
        header, row, files, named, tmp_path):
    text = header + '\n' + ''.join(
        row.format(i, LABELS[i % 2], OTHER[i]) + '\n' for i in range(12))
    path = write_list(tmp_path, text)
    for i in range(12):
        if files != '{}.jpg':
            write_image(tmp_path / 'photos' / files.format(i), 100 + i)
    with pytest.raises(UserError, match='the column') as error:
        prepare_classes(path, str(tmp_path / 'out'))
    for name in named:
        assert name in str(error.value)
    assert '\n' not in str(error.value)
    assert not (tmp_path / 'out').exists()


def test_two_columns_may_name_the_same_images(tmp_path):
    """A name, which is in two folders, and a path."""
    text = lines('{0}.jpg,photos/{0}.jpg,{1}', 'name,path,label\n')
    write_list(tmp_path, text)
    for i in range(12):
        write_image(tmp_path / f'other/{i}.jpg', 100 + i)
    text = tmp_path / 'list.csv'
    (tmp_path / 'photos/list.csv').rename(text)
    prepare_classes(str(text), str(tmp_path / 'out'))
    for file in (tmp_path / 'out').glob('*/*/*'):
        assert file.resolve().parent == tmp_path / 'photos'


@pytest.mark.parametrize('other', ['3.jpg', 'val/3.jpg'])
def test_a_lost_image_is_not_that_of_its_name(other, tmp_path):
    path = write_list(tmp_path, lines('{0}.jpg,train/{0}.jpg,{1}',
                                      'name,path,label\n'),
                      files='train/{}.jpg')
    (tmp_path / 'photos/val').mkdir()
    (tmp_path / 'photos/train/3.jpg').rename(tmp_path / 'photos' / other)
    prepare_classes(path, str(tmp_path / 'out'))
    assert written_to(tmp_path / 'out').keys() == {
        f'{i}.jpg' for i in range(12) if i != 3}


@pytest.mark.parametrize('original', ['a{1}', 'DSC{0}.tif'])
def test_names_are_no_classes(original, tmp_path):
    """Ids that are names of other images, or names from before."""
    text = 'original,file,animal\n' + ''.join(
        f'{original.format(i // 2, OTHER[i])},a{i}.jpg,{LABELS[i % 2]}\n'
        for i in range(12))
    prepare_classes(write_list(tmp_path, text, files='a{}.jpg'),
                    str(tmp_path / 'out'))
    assert written_to(tmp_path / 'out') == {
        f'a{i}.jpg': LABELS[i % 2] for i in range(12)}


def test_columns_that_are_not_used_are_told(tmp_path):
    report = prepare_classes(write_list(tmp_path, lines(
        '{0}.jpg,{1},{2}', 'image,label,doctor\n')), str(tmp_path / 'out'))
    assert "'doctor'" in report.account[
        'notes', 'columns of the list are not used'].example


def test_titles_may_be_names_of_images(tmp_path):
    write_image(tmp_path / 'photos/image.jpg', 99)
    write_image(tmp_path / 'photos/label.jpg', 98)
    prepare_classes(write_list(tmp_path, lines('{},{}', 'image,label\n')),
                    str(tmp_path / 'out'))
    assert written_to(tmp_path / 'out') == {
        f'{i}.jpg': LABELS[i % 2] for i in range(12)}


@pytest.mark.parametrize('title', ['split', 'part', 'data set', 'Usage'])
@pytest.mark.parametrize('names', [('train', 'val'), ('Training', 'TEST')])
def test_splits_may_have_any_title(title, names, tmp_path):
    text = f'image,{title},label\n' + ''.join(
        f'{i}.jpg,{names[i // 6]},{LABELS[i % 2]}\n' for i in range(12))
    report = prepare_classes(write_list(tmp_path, text),
                             str(tmp_path / 'out'))
    split = names[1].lower()
    found = (tmp_path / 'out' / split).glob('*/*')
    assert {path.name for path in found} == {
        f'{i}.jpg' for i in range(6, 12)}
    assert f'already split into train, {split}' in report.title


def test_words_of_splits_are_no_splits(tmp_path):
    """Classes of two columns, places, and the numbers of sets."""
    prepare_classes(write_list(tmp_path, lines('{},{}').replace(
        'mel', 'train').replace('nv', 'test')), str(tmp_path / 'out'))
    assert {*written_to(tmp_path / 'out').values()} == {'train', 'test'}
    text = 'image,set,place,part,label\n' + ''.join(
        f'{i}.jpg,{i % 3},train {i},{("train", "val")[i // 6]},'
        f'{LABELS[i % 2]}\n' for i in range(12))
    prepare_classes(write_list(tmp_path, text), str(tmp_path / 'other'))
    assert len([*(tmp_path / 'other/val').glob('*/*')]) == 6


@pytest.mark.parametrize('header, row, named', [
    ('image,label,is_valid', '{0}.jpg,{1},{3}', ['is_valid']),
    ('image,split,label,old', '{0}.jpg,{2},{1},{2}', ['split', 'old'])])
def test_splits_that_are_unclear_are_refused(header, row, named, tmp_path):
    text = header + '\n' + ''.join(row.format(
        i, LABELS[i % 2], ('train', 'val')[i // 6], i > 5) + '\n'
        for i in range(12))
    with pytest.raises(UserError, match='split') as error:
        prepare_classes(write_list(tmp_path, text), str(tmp_path / 'out'))
    assert all(name in str(error.value) for name in named)


def test_classes_of_lists_must_be_trained_on(tmp_path):
    text = 'image,label,split\n' + ''.join(
        f'{i}.jpg,{LABELS[i % 2]}{"s" * (i > 10)},{split}\n'
        for i, split in enumerate(6 * ['train'] + 6 * ['val']))
    with pytest.raises(UserError, match=r"val has .*\['mel', 'nv', 'nvs'\].*"
                       r"train has \['mel', 'nv'\]"):
        prepare_classes(write_list(tmp_path, text), str(tmp_path / 'out'))
    assert not (tmp_path / 'out').exists()


def test_ids_that_lost_their_zeros_are_named(tmp_path):
    path = write_list(tmp_path, lines('{},{}', 'id,label\n'),
                      files='00{}.jpg')
    with pytest.raises(UserError, match="'0'.*lost the zeros of .*000.jpg"):
        prepare_classes(path, str(tmp_path / 'out'))


@pytest.mark.parametrize('text', [
    lines('{0},{2}', 'id,label\n'), lines('{0};{1};', 'image;label;\n')])
def test_classes_are_no_images(text, tmp_path):
    """Numbers of classes match files, or all images are lost."""
    path = write_list(tmp_path, text, files='x{}.jpg')
    for i in range(2):
        write_image(tmp_path / f'photos/{i}.jpg', i)
    with pytest.raises(UserError, match='none names files'):
        prepare_classes(path, str(tmp_path / 'out'))


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


@pytest.mark.parametrize('joined', [
    'mel nv', 'nv,mel', 'mel, nv', 'mel;nv', 'mel | nv', 'nv+mel',
    'leaf rust,mel'])
def test_names_that_join_other_classes_are_told(joined, tmp_path):
    """Even if most images have one label."""
    rows = ['name,label']
    for number in range(12):
        write_image(tmp_path / f'photos/{number}.jpg', number)
        label = ('mel', 'nv', 'healthy', 'leaf rust', 'rust', joined)[
            number % 6]
        rows.append(f'{number}.jpg,"{label}"')
    (tmp_path / 'photos/list.csv').write_text('\n'.join(rows))
    report = prepare_classes(str(tmp_path / 'photos/list.csv'),
                             str(tmp_path / 'out'))
    notes = {reason: count for (kind, reason), count
             in report.account.items() if kind == 'notes'}
    count = notes['class names may be several labels, but each image is of '
                  'one class']
    assert (count.number, count.example) == (1, joined)


def test_broken_images_are_skipped(tmp_path):
    path = write_list(tmp_path, lines('{}.jpg,{}'))
    (tmp_path / 'photos/3.jpg').write_bytes(b'no image')
    (tmp_path / 'photos/4.jpg').unlink()
    report = prepare_classes(path, str(tmp_path / 'out'))
    assert report.account.skipped('images') == 2
    assert len([*(tmp_path / 'out').glob('*/*/*.jpg')]) == 10
