# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The accuracy of nearest neighbours from the command line."""
import json
import logging

import pytest
import torch
from mmengine.config import Config
from mmengine.logging import MMLogger

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


def test_more_neighbours_than_there_are(call, checkpoint, folders, tmp_path,
                                        capsys, monkeypatch):
    told = []
    monkeypatch.setattr('qbheat_mm.evaluation.labelled.print_log',
                        lambda line, **_: told.append(line))
    out = tmp_path / 'knn.json'
    for val, voting in ((), 11), ((folders / 'val', ), 12):
        call('knn', checkpoint, folders / 'train', *val, '--out', out)
        assert json.loads(out.read_text())['k'] == voting
        assert f'% (k={voting}, ' in capsys.readouterr().out
        assert told.pop().startswith(
            f'k=20 of {voting} neighbours: all vote')
    call('knn', checkpoint, folders / 'train', '--k', 10)
    assert not told


def test_a_random_encoder_is_told_of_in_few_lines(call, folders, tmp_path):
    cfg, lines = tmp_path / 'config.py', []
    Config(settings_of()).dump(cfg)
    handler = logging.Handler(logging.INFO)
    handler.emit = lines.append
    logger = MMLogger.get_current_instance()
    logger.addHandler(handler)
    try:
        call('knn', cfg, folders / 'train', '--k', 3)
        logger.info('afterwards - torch.Size([1])')
    finally:
        logger.removeHandler(handler)
    assert len(lines) < 10
    assert lines[-1].getMessage().startswith('afterwards')


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


def test_weights_are_named(call, checkpoint, folders, tmp_path, capsys):
    cfg, out = tmp_path / 'config.py', tmp_path / 'knn.json'
    Config(settings_of()).dump(cfg)
    call('knn', cfg, folders / 'train', '--seed', 3, '--out', out)
    assert 'random weights, seed 3' in capsys.readouterr().out
    settings = settings_of()
    settings['model']['backbone']['init_cfg'] = dict(
        type='PretrainedEncoder', checkpoint=None)
    Config(settings).dump(cfg)
    call('knn', cfg, folders / 'train', '--out', out, '--cfg-options',
         f'model.backbone.init_cfg.checkpoint={checkpoint}')
    assert str(checkpoint) in capsys.readouterr().out
    found = json.loads(out.read_text())
    assert found['weights'] == str(checkpoint) and found['left_out'] == 0


def test_weights_of_other_pixels_are_refused(call, checkpoint, folders,
                                             tmp_path):
    settings = settings_of()
    settings['model']['backbone']['init_cfg'] = dict(
        type='PretrainedEncoder', checkpoint=str(checkpoint))
    settings['model']['data_preprocessor']['mean'] = [1., 2., 3.]
    Config(settings).dump(tmp_path / 'config.py')
    with pytest.raises(UserError, match='trained with other pixels'):
        call('knn', tmp_path / 'config.py', folders / 'train')
    settings['model']['backbone']['init_cfg']['allow_other_pixels'] = True
    Config(settings).dump(tmp_path / 'config.py')
    call('knn', tmp_path / 'config.py', folders / 'train')


def test_bare_weights_take_a_configuration(call, checkpoint, folders,
                                           tmp_path, capsys):
    weights = torch.load(checkpoint, weights_only=False)['state_dict']
    torch.save(weights, tmp_path / 'bare.pth')
    Config(settings_of()).dump(tmp_path / 'config.py')
    call('knn', tmp_path / 'bare.pth', folders / 'train', '--config',
         tmp_path / 'config.py')
    assert 'bare.pth' in capsys.readouterr().out
    with pytest.raises(UserError, match='leave one out'):
        call('knn', tmp_path / 'config.py', folders / 'train', '--config',
             tmp_path / 'config.py')


def test_what_cannot_be_is_told_before_anything_is_embedded(
        call, checkpoint, folders, tmp_path, capsys):
    for value in ('0', '-1', 'nan', 'inf', 'warm'):
        with pytest.raises(SystemExit):
            call('knn', checkpoint, folders / 'train', '--temperature', value)
        assert f"'{value}' is not a number above 0" in capsys.readouterr().err
    (tmp_path / 'red').mkdir()
    one = next((folders / 'train' / 'red').iterdir())
    (tmp_path / 'red/a.png').write_bytes(one.read_bytes())
    with pytest.raises(UserError, match='holds one image'):
        call('knn', checkpoint, tmp_path)


def test_images_that_were_left_out_do_not_count(call, checkpoint, folders,
                                                tmp_path, capsys):
    for file in (folders / 'train').rglob('*.png'):
        path = tmp_path / file.parent.name / file.name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(file.read_bytes())
    (tmp_path / 'red/cut.png').write_bytes(b'no image')
    call('knn', checkpoint, tmp_path)
    assert '2 classes, 1 of them left out' in capsys.readouterr().out
