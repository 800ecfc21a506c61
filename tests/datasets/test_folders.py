# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Image folders drop no file and mix up no class silently."""
import os
from itertools import permutations

import pytest
from mmpretrain.registry import DATASETS

from qbheat_mm.datasets import find_images
from qbheat_mm.errors import UserError

from .pictures import draw, encode

PIPELINE = [dict(type='LoadImageFromFile', _scope_='qbheat_mm')]
every_kind = pytest.mark.parametrize(
    'kind', ['NamedImageFolder', 'NamedImageNet'])


def build(root, **settings):
    settings = dict(type='NamedImageFolder', with_label=False) | settings
    return DATASETS.build(
        dict(data_root=str(root), pipeline=PIPELINE, serialize_data=False,
             **settings))


def fill(folder, *names):
    """Write images, and text of other extensions."""
    forms = dict(jpg='JPEG', webp='WEBP', tiff='TIFF', gif='GIF', png='PNG')
    for name in names:
        path = folder / name
        path.parent.mkdir(exist_ok=True, parents=True)
        form = forms.get(name.split('.')[-1].lower())
        path.write_bytes(encode(draw(), form) if form else b'text')


def names(dataset, root):
    return [os.path.relpath(dataset.get_data_info(i)['img_path'], root)
            for i in range(len(dataset))]


def labels(dataset):
    return [dataset.get_data_info(i)['gt_label'] for i in range(len(dataset))]


def test_flat_and_nested_folders_of_all_formats(tmp_path, logged):
    files = ['A.JPG', 'b.webp', 'c/d.tiff', 'c/e/f.Gif', 'c/g.png']
    fill(tmp_path, *files)
    dataset = build(tmp_path)
    assert names(dataset, tmp_path) == files
    assert all(dataset[i]['img'].shape == (48, 64, 3) for i in range(5))
    assert not logged


def test_other_files_are_counted(tmp_path, logged):
    fill(tmp_path, 'a.jpg', 'b.txt', 'c/d.txt', 'c/e.xyz', '.hidden/f.jpg')
    (tmp_path / 'c/loop').symlink_to(tmp_path)
    assert names(build(tmp_path), tmp_path) == ['a.jpg']
    line, = logged
    for kind in ('1 images', '2 .txt', '1 .xyz'):
        assert kind in line


SYSTEM = ['@eaDir', '.@__thumb', '@__thumb', '.thumbnails', '__MACOSX',
          '#recycle', '@Recycle', '$RECYCLE.BIN', '.Trash-1000', '#snapshot',
          '.ipynb_checkpoints', 'lost+found']


@pytest.mark.parametrize('name', [*SYSTEM, 'Thumbs', 'thumbnails', '_thumb'])
def test_thumbnails_and_deleted_files_are_skipped_and_counted(
        tmp_path, logged, name):
    fill(tmp_path, '1.jpg', f'{name}/1.jpg/SMALL.jpg', f'{name}/x/3.jpg',
         f'{name}/2.txt', 'a/2.jpg', f'a/{name}/2.jpg', 'a/b/3.jpg')
    assert names(build(tmp_path), tmp_path) == ['1.jpg', 'a/2.jpg',
                                                'a/b/3.jpg']
    assert f"3 images in folders '{name}'" in logged.pop()
    assert find_images([str(tmp_path / 'a')]) == [
        str(tmp_path / 'a/2.jpg'), str(tmp_path / 'a/b/3.jpg')]
    assert f"1 images in folders '{name}'" in logged.pop()
    # What is asked for is read.
    assert len(find_images([str(tmp_path / name)])) == 2


@pytest.mark.parametrize('name', SYSTEM)
def test_folders_of_the_system_are_no_classes(tmp_path, logged, name):
    fill(tmp_path, 'a/1.jpg', 'b/1.jpg', f'{name}/1.jpg', f'b/{name}/1.jpg')
    dataset = build(tmp_path, with_label=True)
    assert dataset.CLASSES == ('a', 'b') and labels(dataset) == [0, 1]
    assert f"2 images in folders '{name}'" in logged.pop()


@pytest.mark.parametrize('name', ['thumbs', 'Thumbnails', '#1', '@home'])
def test_classes_may_be_called_like_thumbnails(tmp_path, logged, name):
    fill(tmp_path, f'{name}/1.jpg', 'z/1.jpg')
    classes = build(tmp_path, with_label=True).CLASSES
    assert classes == (name, 'z')
    assert not logged


def test_links_to_folders_are_followed_once(tmp_path, logged):
    fill(tmp_path, 'in/z/1.jpg', 'else/2.jpg', 'more/3.jpg')
    (tmp_path / 'in/a').symlink_to('z')
    (tmp_path / 'in/b').symlink_to('../else')
    (tmp_path / 'in/c').symlink_to('../else')
    (tmp_path / 'else/deep').symlink_to('../more')
    dataset = build(tmp_path / 'in', with_label=True)
    assert names(dataset, tmp_path / 'in') == [
        'b/2.jpg', 'b/deep/3.jpg', 'z/1.jpg']
    assert dataset.CLASSES == ('b', 'z')
    assert not logged


def test_folders_without_images(tmp_path):
    fill(tmp_path, 'a.txt', 'b.txt', 'c.raw')
    (tmp_path / 'empty').mkdir()
    for folder, problem in ((tmp_path, '2 .txt, 1 .raw'),
                            (tmp_path / 'empty', 'found nothing')):
        with pytest.raises(UserError, match=problem):
            build(folder)
    with pytest.raises(FileNotFoundError, match='nowhere'):
        build(tmp_path / 'nowhere')


@every_kind
def test_class_folders(tmp_path, logged, kind):
    fill(tmp_path, 'b/1.jpg', 'a/2.webp', 'a/x/3.gif', '4.jpg')
    (tmp_path / 'c').mkdir()
    classes = ('a', 'b', 'c')
    dataset = build(
        tmp_path, type=kind, with_label=True, metainfo=dict(classes=classes))
    assert names(dataset, tmp_path) == ['a/2.webp', 'a/x/3.gif', 'b/1.jpg']
    assert labels(dataset) == [0, 0, 1] and classes == dataset.CLASSES
    assert '1 images outside of class folders' in logged[0]
    assert '1 empty class folders' in logged[0]


@every_kind
@pytest.mark.parametrize('order', list(permutations(['a b', 'c', 'ü'])))
def test_labels_follow_the_given_order_of_classes(tmp_path, kind, order):
    fill(tmp_path, 'a b/1.jpg', 'c/1.jpg', 'ü/1.jpg')
    dataset = build(tmp_path, type=kind, with_label=True,
                    metainfo=dict(classes=order))
    found = [name.split('/')[0] for name in names(dataset, tmp_path)]
    assert [order[label] for label in labels(dataset)] == found


@pytest.mark.parametrize('classes', [
    ('x', 'y'), ('a', 'y'), ('a', ), ('a', 'b', 'b')])
def test_other_classes_than_folders(tmp_path, classes):
    fill(tmp_path, 'a/1.jpg', 'b/1.jpg')
    with pytest.raises(UserError, match=', '.join(map(repr, classes))):
        build(tmp_path, with_label=True, metainfo=dict(classes=classes))


def test_imagenet_has_words_for_the_names_of_its_folders(tmp_path):
    fill(tmp_path, 'n01/1.jpg', 'n02/1.jpg')
    dataset = build(tmp_path, type='NamedImageNet', with_label=True,
                    metainfo=dict(classes=('tench', 'goldfish')))
    assert labels(dataset) == [0, 1]
    with pytest.raises(UserError, match="'tench'"):
        build(tmp_path, type='NamedImageNet', with_label=True,
              metainfo=dict(classes=('tench', )))


@pytest.mark.parametrize('text', [
    'a.jpg\n', 'a.jpg x\n', 'a.jpg 0\nb.jpg\n', '\n', '', 'ü.jpg 0\n',
    'a.jpg 2\n', 'a.jpg -1\n'])
def test_malformed_annotation_files_are_named(tmp_path, text):
    (tmp_path / 'list.txt').write_text(text, encoding='latin-1')
    with pytest.raises(UserError, match='list.txt'):
        build(tmp_path, with_label=True, ann_file='list.txt',
              metainfo=dict(classes=('one', 'two')))


def test_annotation_files_as_other_systems_write_them(tmp_path):
    """With a byte order mark, blanks in names, other ends and empty lines."""
    (tmp_path / 'list.txt').write_bytes(
        'a b/ü.jpg 1\r\n\r\nc.jpg 0\r\n\r\n'.encode('utf-8-sig'))
    dataset = build(tmp_path, with_label=True, ann_file='list.txt',
                    metainfo=dict(classes=('one', 'two')))
    assert names(dataset, tmp_path) == ['a b/ü.jpg', 'c.jpg']
    assert labels(dataset) == [1, 0]
    (tmp_path / 'list.txt').write_bytes('a b/ü.jpg\r\n'.encode('utf-8-sig'))
    dataset = build(tmp_path, with_label=False, ann_file='list.txt')
    assert names(dataset, tmp_path) == ['a b/ü.jpg']
