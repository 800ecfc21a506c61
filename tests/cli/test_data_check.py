# Copyright (c) QB-Heat MM authors. All rights reserved.
import json

import pytest
from mmengine.config import Config

from qbheat_mm.cli import check_boxes, check_data
from qbheat_mm.errors import UserError


def loader(**dataset):
    return dict(dataset=dict(dict(type='CocoDataset'), **dataset))


def check(parts=('train', 'val'), **settings):
    check_data(Config(settings), parts)


def missing(*args, **kwargs):
    with pytest.raises(UserError) as error:
        check(*args, **kwargs)
    return str(error.value)


@pytest.fixture
def root(tmp_path):
    (tmp_path / 'images').mkdir()
    (tmp_path / 'a.json').touch()
    return str(tmp_path)


def test_data_that_is_there_passes(root):
    check(train_dataloader=loader(
        data_root=root, ann_file='a.json', data_prefix=dict(img='images/')),
        val_dataloader=loader(data_root=root, data_prefix='images'),
        val_evaluator=dict(ann_file=root + '/a.json'))


def test_all_settings_with_the_same_missing_root_are_named():
    line = missing(train_dataloader=loader(data_root='no/', ann_file='x'),
                   val_dataloader=loader(data_root='no/'))
    assert "'no/' does not exist" in line
    assert ('train_dataloader.dataset.data_root=PATH '
            'val_dataloader.dataset.data_root=PATH') in line


def test_only_the_parts_that_are_used_are_looked_at():
    check(['test'], train_dataloader=loader(data_root='no/'))


@pytest.mark.parametrize('settings,name', [
    (dict(ann_file='no.json'), 'ann_file'),
    (dict(data_prefix=dict(img='no')), 'data_prefix.img'),
    (dict(data_prefix='no'), 'data_prefix'),
])
def test_what_is_below_the_root_is_named(root, settings, name):
    line = missing(train_dataloader=loader(data_root=root, **settings))
    assert f'{root}/no' in line
    assert f'train_dataloader.dataset.{name}=PATH' in line


def test_data_sets_inside_others_are_found(root):
    inner = loader(data_root='no/')['dataset']
    line = missing(train_dataloader=dict(dataset=dict(
        type='RepeatDataset', dataset=dict(
            type='ConcatDataset',
            datasets=[loader(data_root=root)['dataset'], inner]))))
    assert 'train_dataloader.dataset.dataset.datasets.1.data_root' in line


def test_the_annotations_of_the_evaluator_are_looked_for(root):
    line = missing(val_evaluator=dict(type='CocoMetric', ann_file='no.json'))
    assert 'val_evaluator.ann_file=PATH' in line


def test_what_is_not_local_or_downloaded_is_not_looked_for():
    check(train_dataloader=loader(data_root='s3://bucket/coco',
                                  ann_file='a.json'),
          val_dataloader=loader(type='CIFAR10', data_root='no/'))


def test_several_missing_paths_are_counted():
    line = missing(train_dataloader=loader(data_root='no/'),
                   val_dataloader=loader(data_root='none/'))
    assert "'no/' does not exist, nor do 1 more," in line


@pytest.mark.parametrize('settings', [
    dict(backend_args=dict(backend='petrel', path_mapping={'data/': 's3://b'}),
         pipeline=[dict(type='LoadImageFromFile', backend_args=dict(
             backend='petrel'))]),
    dict(data_prefix=dict(img='s3://bucket/images'), ann_file='s3://b/a.json'),
])
def test_what_a_backend_maps_elsewhere_is_not_looked_for(settings):
    check(train_dataloader=loader(**dict(
        dict(data_root='', ann_file='data/coco/a.json',
             data_prefix=dict(img='data/coco/images')), **settings)),
          val_evaluator=dict(ann_file='data/a.json', backend_args=dict(
              backend='petrel')))


def test_the_local_backend_maps_nothing():
    assert "'no/' does not exist" in missing(train_dataloader=loader(
        data_root='no/', backend_args=dict(backend='local')))


def boxes_file(root, **values):
    content = dict(
        images=[dict(id=1, file_name='1.png', width=40, height=40)],
        annotations=[dict(dict(id=i, image_id=1, category_id=1, iscrowd=0,
                               bbox=[5, 5, 20, 20], area=400), **values)
                     for i in (1, 2, 3)],
        categories=[dict(id=1, name='cup')])
    with open(f'{root}/a.json', 'w') as file:
        json.dump(content, file)


def check_file(root, **settings):
    check_boxes(Config(dict(train_dataloader=loader(**dict(
        dict(data_root=root, ann_file='a.json', metainfo=dict(
            classes=['cup'])), **settings)))), ['train'])


@pytest.mark.parametrize('values,words', [
    (dict(), None),
    (dict(category_id=7), 'of an unknown category'),
    (dict(iscrowd=None), "set type='MatchedCocoDataset'"),
])
def test_files_of_mmdets_own_data_set_are_checked(root, values, words):
    boxes_file(root, **values)
    if words is None:
        return check_file(root)
    with pytest.raises(UserError, match=words):
        check_file(root)
    # Ours checks its own.
    check_file(root, type='MatchedCocoDataset')
    check_file('s3://bucket', backend_args=dict(backend='petrel'))
