# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Missing data is reported before anything is built."""
import pytest
from mmengine.config import Config

from qbheat_mm.cli import check_data
from qbheat_mm.errors import UserError


def check(parts=('train', ), **dataset):
    check_data(Config(dict(train_dataloader=dict(dataset=dict(
        type='CustomDataset', **dataset)))), parts)


def test_data_that_exists(tmp_path):
    (tmp_path / 'a.json').touch()
    check(data_root=str(tmp_path), ann_file='a.json')
    check(['val'], data_root='nowhere')


@pytest.mark.parametrize('dataset, words', [
    (dict(data_root='nowhere'), "'nowhere' does not .*set train_dataloader."
     'dataset.data_root'),
    (dict(ann_file='a.json'), 'dataset.ann_file'),
    (dict(datasets=[dict(dataset=dict(type='A', data_root='x'))]),
     'dataset.datasets.0.dataset.data_root')])
def test_missing_paths(dataset, words):
    with pytest.raises(UserError, match=words):
        check(**dataset)


@pytest.mark.parametrize('dataset', [
    dict(data_root='s3://bucket'),
    dict(data_root='x', backend_args=dict(backend='petrel')),
    dict(data_root='x', pipeline=[dict(
        type='Load', backend_args=dict(backend='petrel'))])])
def test_other_storage_is_not_looked_at(dataset):
    check(**dataset)
