# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The same tools train and test with mmpretrain and mmdet."""
import importlib.metadata
import json
import runpy
import sys

import mmengine

from .conftest import ROOT, run


def call(monkeypatch, name, *args):
    monkeypatch.setattr(sys, 'argv', [name, *(str(a) for a in args)])
    runpy.run_path(str(ROOT / 'tools' / name), run_name='__main__')


def test_a_classifier_is_tested_and_drawn(monkeypatch, tmp_path,
                                          classifier_config,
                                          trained_classifier):
    monkeypatch.chdir(tmp_path)
    call(monkeypatch, 'test.py', classifier_config,
         trained_classifier / 'epoch_4.pth', '--out', 'out.pkl',
         '--out-metrics', 'metrics.json', '--show-dir', 'pictures')
    metrics = json.loads((tmp_path / 'metrics.json').read_text())
    assert 0 <= metrics['accuracy/top1'] <= 100
    assert len(mmengine.load(tmp_path / 'out.pkl')) == 8
    assert len(list((tmp_path / 'pictures').rglob('*.[jp][pn]g'))) == 8


def test_mim_trains_a_detector_from_an_empty_folder(
        monkeypatch, tmp_path, detector_config):
    mim = [sys.executable, '-m', 'mim']
    # The fork's packages bear other names than its modules.
    mmdet = importlib.metadata.packages_distributions().get(
        'mmdet', ['mmdet'])[0]
    run(*mim, 'train', mmdet, detector_config, '--gpus', 0, '--work-dir',
        tmp_path / 'runs', cwd=tmp_path)
    # What mim has trained, our own tool tests.
    monkeypatch.chdir(tmp_path)
    call(monkeypatch, 'test.py', detector_config, 'runs/epoch_1.pth',
         '--out-metrics', 'metrics.json', '--show-dir', 'pictures')
    ours = json.loads((tmp_path / 'metrics.json').read_text())
    assert ours['coco/bbox_mAP'] >= 0
    assert list((tmp_path / 'work_dirs').rglob('pictures/*'))
