# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The accuracy of nearest neighbours from the command line."""
import json

import pytest
from mmengine.config import Config

from qbheat_mm.apis import embed
from qbheat_mm.errors import UserError
from qbheat_mm.evaluation import knn_accuracy, labelled_folder

from .conftest import settings_of


def test_two_folders(call, checkpoint, folders, tmp_path, capsys):
    out = tmp_path / 'knn.json'
    call('knn', checkpoint, folders / 'train', folders / 'val', '--k', 3,
         '--pool', 'avg+token', '--out', out)
    found = json.loads(out.read_text())
    train, val = (
        embed(checkpoint, folders / split, pool='avg+token').embeddings
        for split in ('train', 'val'))
    assert train.shape == (12, 36)
    assert found['top1'] == pytest.approx(knn_accuracy(
        train, [0] * 6 + [1] * 6, val, [0] * 3 + [1] * 3, k=3))
    text = capsys.readouterr().out
    assert f'{found["top1"]:.2f} % (k=3' in text
    assert 'of 6 images by 12 of 2 classes, MobileFormer()' in text


def test_one_folder_and_a_random_encoder(call, folders, tmp_path, capsys):
    cfg = tmp_path / 'config.py'
    Config(settings_of()).dump(cfg)
    call('knn', cfg, folders / 'train', '--seed', 1)
    assert 'of 12 images by 12 of 2 classes' in capsys.readouterr().out


def test_an_encoder_without_weights_is_not_random(call, folders, tmp_path):
    settings = settings_of()
    settings['model']['backbone']['init_cfg'] = dict(
        type='PretrainedEncoder', checkpoint=None)
    Config(settings).dump(tmp_path / 'config.py')
    with pytest.raises(UserError, match='no encoder weights'):
        call('knn', tmp_path / 'config.py', folders / 'train')


def test_classes_go_by_their_names(folders, tmp_path):
    (tmp_path / 'red').symlink_to(folders / 'val' / 'red')
    data = labelled_folder(str(tmp_path), ('blue', 'red'))
    assert data.labels == [1, 1, 1]
    (tmp_path / 'green').symlink_to(folders / 'val' / 'red')
    with pytest.raises(UserError, match="class 'green'"):
        labelled_folder(str(tmp_path), ('blue', 'red'))


def test_options_without_a_configuration(call, checkpoint, folders):
    with pytest.raises(UserError, match='--cfg-options'):
        call('knn', checkpoint, folders / 'train', '--cfg-options', 'a=1')
