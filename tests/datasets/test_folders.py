# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Every file of an image folder is read, or counted and named."""
import os
from itertools import permutations

import pytest
from mmpretrain.registry import DATASETS

from qbheat_mm.errors import UserError

from .conftest import draw, encode

PIPELINE = [dict(type='LoadImageFromFile', _scope_='qbheat_mm')]


@pytest.fixture
def told(monkeypatch):
    lines = []
    monkeypatch.setattr('qbheat_mm.datasets.extensions.print_log',
                        lambda line, **kwargs: lines.append(line))
    return lines


def build(root, **settings):
    settings = dict(type='NamedImageFolder', with_label=False) | settings
    return DATASETS.build(
        dict(data_root=str(root), pipeline=PIPELINE, serialize_data=False,
             **settings))


def fill(folder, *names):
    forms = dict(jpg='JPEG', webp='WEBP', tiff='TIFF', gif='GIF', png='PNG')
    for name in names:
        path = folder / name
        path.parent.mkdir(exist_ok=True, parents=True)
        form = forms.get(name.split('.')[-1].lower())
        path.write_bytes(encode(draw(), form) if form else b'text')


def names(dataset, root):
    return [os.path.relpath(dataset.get_data_info(i)['img_path'], root)
            for i in range(len(dataset))]


def test_flat_and_nested_folders_of_all_formats(tmp_path, told):
    files = ['A.JPG', 'b.webp', 'c/d.tiff', 'c/e/f.Gif', 'c/g.png']
    fill(tmp_path, *files)
    dataset = build(tmp_path)
    assert names(dataset, tmp_path) == files
    assert all(dataset[i]['img'].shape == (48, 64, 3) for i in range(5))
    assert not told


def test_one_ending_is_no_list_of_letters(tmp_path, told):
    fill(tmp_path, 'a.jpg', 'b.png', 'c.webp')
    for endings in ('.jpg', ['.jpg']):
        assert names(build(tmp_path, extensions=endings), tmp_path) == [
            'a.jpg']
    with pytest.raises(UserError, match='extensions=5 must be'):
        build(tmp_path, extensions=5)


def test_the_rest_is_counted(tmp_path, told):
    fill(tmp_path, 'a.jpg', 'b.txt', 'c/d.txt', 'c/e.xyz', '.hidden/f.jpg')
    (tmp_path / 'g.jpg').symlink_to('nowhere.jpg')
    os.mkfifo(tmp_path / 'h.jpg')
    (tmp_path / 'c/loop').symlink_to(tmp_path)
    assert names(build(tmp_path), tmp_path) == ['a.jpg']
    line, = told
    assert f"'{tmp_path}/': 1 images" in line or f"'{tmp_path}': 1" in line
    for kind in ('2 .txt', '1 .xyz', '1 dangling links', '1 pipes'):
        assert kind in line


def test_a_link_to_itself_is_a_dangling_one(tmp_path, told):
    fill(tmp_path, 'a.jpg', 'c/b.jpg')
    (tmp_path / 'self').symlink_to('self')
    (tmp_path / 'c/one.jpg').symlink_to('other.jpg')
    (tmp_path / 'c/other.jpg').symlink_to('one.jpg')
    assert names(build(tmp_path), tmp_path) == ['a.jpg', 'c/b.jpg']
    assert '3 dangling links' in told[0]


def test_a_folder_is_read_once_however_many_links_lead_to_it(tmp_path, told):
    folders = [tmp_path / 'in' / name for name in 'abcdefgh']
    fill(tmp_path / 'in', *(f'{name}/1.jpg' for name in 'abcdefgh'))
    for folder in folders:
        for other in folders:
            if other != folder:
                (folder / f'to_{other.name}').symlink_to(other)
    assert names(build(tmp_path / 'in'), tmp_path / 'in') == [
        f'{name}/1.jpg' for name in 'abcdefgh']
    assert '56 links to folders that are read anyway' in told[0]


def test_links_to_folders_elsewhere_are_followed(tmp_path, told):
    """Also from one to the next; the first name counts, on every disk."""
    fill(tmp_path, 'in/z/1.jpg', 'else/2.jpg', 'more/3.jpg')
    (tmp_path / 'in/b').symlink_to('../else')
    (tmp_path / 'in/c').symlink_to('../else')
    (tmp_path / 'else/deep').symlink_to('../more')
    dataset = build(tmp_path / 'in', with_label=True)
    assert names(dataset, tmp_path / 'in') == [
        'b/2.jpg', 'b/deep/3.jpg', 'z/1.jpg']
    assert dataset.CLASSES == ('b', 'c', 'z')
    assert '1 links to folders that are read anyway' in told[0]


def test_nothing_but_other_files_is_one_line(tmp_path):
    fill(tmp_path, 'a.txt', 'b.txt', 'c.raw')
    with pytest.raises(UserError, match='no image: found 2 .txt, 1 .raw'):
        build(tmp_path)
    (tmp_path / 'empty').mkdir()
    with pytest.raises(UserError, match='no image: found nothing'):
        build(tmp_path / 'empty')
    with pytest.raises(UserError, match='does not exist'):
        build(tmp_path / 'nowhere')


@pytest.mark.parametrize('kind', ['NamedImageFolder', 'NamedImageNet'])
def test_folders_of_classes(tmp_path, told, kind):
    fill(tmp_path, 'b/1.jpg', 'a/2.webp', 'a/x/3.gif', '4.jpg')
    (tmp_path / 'c').mkdir()
    classes = ('a', 'b', 'c')
    dataset = build(
        tmp_path, type=kind, with_label=True, metainfo=dict(classes=classes))
    labels = [dataset.get_data_info(i)['gt_label'] for i in range(3)]
    assert names(dataset, tmp_path) == ['a/2.webp', 'a/x/3.gif', 'b/1.jpg']
    assert labels == [0, 0, 1] and classes == dataset.CLASSES
    assert '1 images outside of the folders' in told[0]
    assert '1 empty folders of classes (c' in told[0]


@pytest.mark.parametrize('kind', ['NamedImageFolder', 'NamedImageNet'])
@pytest.mark.parametrize('order', list(permutations(['a b', 'c', 'ü'])))
def test_labels_follow_the_order_of_the_classes_that_are_given(
        tmp_path, kind, order):
    fill(tmp_path, 'a b/1.jpg', 'c/1.jpg', 'ü/1.jpg')
    dataset = build(tmp_path, type=kind, with_label=True,
                    metainfo=dict(classes=order))
    assert {dataset.CLASSES[info['gt_label']]: info['img_path'].split('/')[-2]
            for info in map(dataset.get_data_info, range(3))
            } == {name: name for name in order}


@pytest.mark.parametrize('classes', [
    ('x', 'y'), ('a', 'y'), ('a', ), ('a', 'b', 'b')])
def test_classes_that_are_not_the_folders(tmp_path, classes):
    fill(tmp_path, 'a/1.jpg', 'b/1.jpg')
    settings = dict(with_label=True, metainfo=dict(classes=classes))
    with pytest.raises(UserError, match=f"folders of classes 'a', 'b', .*"
                       f"are {', '.join(map(repr, classes))}: correct"):
        build(tmp_path, **settings)


def test_imagenet_has_words_for_the_names_of_its_folders(tmp_path):
    fill(tmp_path, 'n01/1.jpg', 'n02/1.jpg')
    dataset = build(tmp_path, type='NamedImageNet', with_label=True,
                    metainfo=dict(classes=('tench', 'goldfish')))
    assert [dataset.get_data_info(i)['gt_label'] for i in range(2)] == [0, 1]
    with pytest.raises(UserError, match='holds 2 folders.*has 1 classes'):
        build(tmp_path, type='NamedImageNet', with_label=True,
              metainfo=dict(classes=('tench', )))


@pytest.mark.parametrize('text,problem', [
    ('a.jpg\n', 'each of its lines'), ('a.jpg x\n', 'each of its lines'),
    ('a.jpg 0\nb.jpg\n', "line 2, 'b.jpg': each of its lines"),
    ('\n', 'is empty'), ('', 'is empty'), ('ü.jpg 0\n', 'not UTF-8 .* save'),
    ('a.jpg 2\n', 'labels from 2 to 2'), ('a.jpg -1\n', 'line 1, .* from 0')])
def test_lists_of_images_that_are_none(tmp_path, text, problem):
    (tmp_path / 'list.txt').write_text(text, encoding='latin-1')
    with pytest.raises(UserError, match=problem):
        build(tmp_path, with_label=True, ann_file='list.txt',
              metainfo=dict(classes=('one', 'two')))


def test_lists_as_other_systems_write_them(tmp_path):
    """With a byte order mark, blanks in names, other ends and empty lines."""
    fill(tmp_path, 'a b/ü.jpg', 'c.jpg')
    (tmp_path / 'list.txt').write_bytes(
        'a b/ü.jpg 1\r\n\r\nc.jpg 0\r\n\r\n'.encode('utf-8-sig'))
    dataset = build(tmp_path, with_label=True, ann_file='list.txt',
                    metainfo=dict(classes=('one', 'two')))
    found = [dataset.get_data_info(i) for i in range(len(dataset))]
    assert [(info['img_path'], info['gt_label']) for info in found] == [
        (str(tmp_path / 'a b/ü.jpg'), 1), (str(tmp_path / 'c.jpg'), 0)]
    (tmp_path / 'list.txt').write_bytes('a b/ü.jpg\r\n'.encode('utf-8-sig'))
    dataset = build(tmp_path, with_label=False, ann_file='list.txt')
    assert dataset.get_data_info(0)['img_path'] == str(tmp_path / 'a b/ü.jpg')
