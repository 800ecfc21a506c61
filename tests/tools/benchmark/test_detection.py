# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What the measurements of detectors report."""
import argparse
import re
import runpy
import sys

import pytest
import torch

from ..conftest import ROOT

pytest.importorskip('mmdet')
TOOLS = ROOT / 'tools/benchmark'


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    torch.set_num_threads(1)
    monkeypatch.syspath_prepend(str(TOOLS))


def test_a_frozen_encoder_keeps_nothing_for_the_backward_pass():
    tool = runpy.run_path(str(TOOLS / 'frozen_encoder.py'))
    tool['register_all_modules']()

    def kept(kind, size):
        args = argparse.Namespace(config=tool['CONFIG'], batch_size=1,
                                  size=size, device='cpu')
        model = tool['build'](kind, args)
        step = tool['make_step'](model, tool['make_batch'](args))
        return tool['kept_bytes'](model, step)

    frozen, trained = (kept(kind, (64, 96)) for kind in ('frozen', 'trained'))
    assert 0 < frozen < 0.8 * trained
    # The encoder's part grows with the image, that of the queries does not.
    more = [kept(kind, (128, 96)) for kind in ('frozen', 'trained')]
    assert more[1] - trained > 2 * (more[0] - frozen)


def test_a_frozen_encoder_below_any_detector(tmp_path):
    tool = runpy.run_path(str(TOOLS / 'frozen_encoder.py'))
    tool['register_all_modules']()
    config = tmp_path / 'config.py'
    base = ROOT / 'configs/qbheat/coco/retinanet_mf-285m_own-data.py'
    config.write_text(f"_base_ = '{base}'\n"
                      'model = dict(bbox_head=dict(num_classes=1))\n')
    args = argparse.Namespace(config=str(config), batch_size=1, size=(64, 64),
                              device='cpu')
    tool['make_step'](tool['build']('frozen', args),
                      tool['make_batch'](args))()


def test_detectors_stand_beside_each_other(monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', [
        'detector_latency.py', '--size', '64', '96', '--repeats', '1',
        '--threads', '1', '--device', 'cpu'])
    runpy.run_path(str(TOOLS / 'detector_latency.py'), run_name='__main__')
    rows = {line[:22].strip(): re.findall(r'[\d.]+', line[22:])
            for line in capsys.readouterr().out.splitlines()[2:]}
    assert list(rows) == ['MF-Dec-211 on MF-285M', 'MF-Dec-522 on MF-285M',
                          'DETR-R50', 'RetinaNet-R50']
    # 41M is the published size of DETR-R50 (41.3M with its 92 classes).
    assert float(rows['DETR-R50'][0]) == pytest.approx(41.5, rel=0.01)
    assert rows['DETR-R50'][3] == rows['RetinaNet-R50'][4] == '1.00'


def test_checks_of_annotations_stand_beside_plain_reading(monkeypatch,
                                                          capsys):
    monkeypatch.setattr(sys, 'argv', [
        'annotation_checks.py', '--images', '20', '--boxes', '100',
        '--classes', '3', '--repeats', '1'])
    runpy.run_path(str(TOOLS / 'annotation_checks.py'), run_name='__main__')
    lines = capsys.readouterr().out.splitlines()
    assert lines[-4].startswith('20 images, 100 boxes')
    mmdet, ours, checks = (float(re.search(r'[\d.]+(?= s)', line)[0])
                           for line in lines[-3:])
    assert 0 <= checks <= ours
