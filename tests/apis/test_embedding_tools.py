# Copyright (c) QB-Heat MM authors. All rights reserved.
"""tools/embed.py and tools/knn.py."""
import json
import shutil

import numpy as np
import pytest
import torch
from mmengine.config import Config

from qbheat_mm.apis import embed
from qbheat_mm.cli.embeddings import write_embeddings
from qbheat_mm.errors import UserError
from qbheat_mm.evaluation import knn_accuracy
from qbheat_mm.evaluation.labeled import LabeledFolder

from ..helpers.checkpoints import settings_of
from ..helpers.tools import run_tool


def test_the_file(checkpoint, folders, tmp_path, capsys):
    expected = embed(checkpoint, folders / 'train', pool='avg+token')
    out = tmp_path / 'deep/er/x.npz'
    run_tool('embed.py', checkpoint, folders / 'train', '--out', out,
             '--pool', 'avg+token', '--batch-size', 5)
    content = np.load(out)
    assert content['files'].tolist() == expected.files
    assert content['embeddings'].dtype == np.float32
    np.testing.assert_allclose(content['embeddings'], expected.embeddings,
                               atol=1e-6)
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    assert '12 embeddings in ' in capsys.readouterr().out


def test_an_interrupted_run_leaves_the_file_alone(tmp_path):
    def interrupted():
        yield ['a'], np.ones((1, 2), np.float32)
        raise KeyboardInterrupt

    file = tmp_path / 'x.npz'
    file.write_text('previous')
    with pytest.raises(KeyboardInterrupt):
        write_embeddings(str(file), interrupted())
    assert list(tmp_path.iterdir()) == [file]
    assert file.read_text() == 'previous'


def test_knn_of_two_folders(checkpoint, folders, tmp_path, capsys):
    images, out = [], tmp_path / 'knn.json'
    for data in (LabeledFolder(str(folders / name))
                 for name in ('train', 'val')):
        images += [embed(checkpoint, list(data.labels), 'avg+token'
                         ).embeddings, list(data.labels.values())]
    expected = knn_accuracy(*images, k=3)
    run_tool('knn.py', checkpoint, folders / 'train', folders / 'val',
             '--pool', 'avg+token', '--k', 3, '--out', out)
    printed = capsys.readouterr().out
    assert f'{expected:.2f} % (k=3, temperature=0.07, ' in printed
    assert 'of 6 images by 12 of 2 classes, 0 skipped' in printed
    found = json.loads(out.read_text())
    assert found['top1'] == pytest.approx(expected)
    assert found['weights'] == checkpoint and found['left_out'] == 0


def test_the_seed_draws_random_weights(folders, tmp_path, capsys, monkeypatch):
    encoders = []
    monkeypatch.setattr(
        'qbheat_mm.evaluation.labeled.knn_of_folders',
        lambda encoder, train, val, k, temperature, **_: encoders.append(
            encoder) or 100 * k * temperature)
    cfg = tmp_path / 'config.py'
    Config(settings_of()).dump(cfg)
    for seed in (1, 1, 3):
        run_tool('knn.py', cfg, folders / 'train', '--seed', seed, '--k', 5,
                 '--temperature', 0.1)
        printed = capsys.readouterr().out
        assert f'random weights, seed {seed}' in printed
        assert '50.00 % (k=5, temperature=0.1' in printed
    one, again, other = (
        encoder.backbone.state_dict()['stem.0.weight']
        for encoder in encoders)
    assert torch.equal(one, again) and not torch.equal(one, other)


def test_a_config_names_its_weights(checkpoint, folders, tmp_path, capsys):
    settings = settings_of()
    settings['model']['backbone']['init_cfg'] = dict(
        type='PretrainedEncoder', checkpoint=None)
    cfg = tmp_path / 'config.py'
    Config(settings).dump(cfg)
    with pytest.raises(SystemExit, match='no encoder weights'):
        run_tool('knn.py', cfg, folders / 'train')
    run_tool('knn.py', cfg, folders / 'train', '--cfg-options',
             f'model.backbone.init_cfg.checkpoint={checkpoint}')
    assert checkpoint in capsys.readouterr().out


def test_more_neighbors_than_there_are(checkpoint, folders, tmp_path):
    out = tmp_path / 'knn.json'
    for val, voting in ((), 11), ((folders / 'val', ), 12):
        run_tool('knn.py', checkpoint, folders / 'train', *val, '--out', out)
        assert json.loads(out.read_text())['k'] == voting


def test_classes_match_by_name(folders, tmp_path):
    (tmp_path / 'red').symlink_to(folders / 'val' / 'red')
    data = LabeledFolder(str(tmp_path), ('blue', 'red'))
    assert list(data.labels.values()) == [1, 1, 1]
    (tmp_path / 'green').symlink_to(folders / 'val' / 'red')
    with pytest.raises(UserError, match="class 'green'"):
        LabeledFolder(str(tmp_path), ('blue', 'red'))


def test_unreadable_images_do_not_count(checkpoint, folders, tmp_path, capsys):
    shutil.copytree(folders / 'train', tmp_path, dirs_exist_ok=True)
    (tmp_path / 'red/cut.png').write_bytes(b'no image')
    run_tool('knn.py', checkpoint, tmp_path)
    assert '2 classes, 1 skipped' in capsys.readouterr().out
