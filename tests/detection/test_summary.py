# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The last lines of a run, and of one that finds nothing."""
import logging
import os.path as osp
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from mmengine.logging import MMLogger

from qbheat_mm.detection import (
    DetectionSummaryHook,
    MatchedCocoMetric,
    summary,
)
from qbheat_mm.detection.summary import summarize

from ..helpers.tools import ROOT

METRICS = {'coco/cup_precision': 0.5, 'coco/pen_precision': float('nan'),
           'coco/bbox_mAP': 0.412, 'coco/bbox_mAP_50': 0.7}


def test_lines():
    masks = {'coco/segm_mAP': .25, 'coco/segm_mAP_50': .5}
    assert summarize(METRICS | masks) == [
        'AP 41.2, AP50 70.0 (boxes)', 'AP 25.0, AP50 50.0 (masks)',
        'AP by class: cup 50.0']
    assert summarize({'coco/PQ': 1.}) == []


def test_the_best_evaluation_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines, hook = [], DetectionSummaryHook()
    best = SimpleNamespace(best_ckpt_path=str(tmp_path / 'run/best 1.pth'))
    runner = SimpleNamespace(
        logger=SimpleNamespace(info=lines.append), iter=0, hooks=[hook, best],
        cfg=SimpleNamespace(filename='data/boxes.py', load_from='best.pth'),
        work_dir=str(tmp_path / 'run'))
    hook.after_train(runner)
    assert not lines  # as nothing was evaluated
    for runner.iter, score in ((10, 0.1), (20, 0.412), (30, 0.3)):
        hook.after_val_epoch(runner, dict(METRICS, **{'coco/bbox_mAP': score}))
    hook.after_train(runner)
    assert lines == [
        'validation, step 20: AP 41.2, AP50 70.0 (boxes)',
        'validation, step 20: AP by class: cup 50.0',
        f"to look at its boxes: python {osp.relpath(ROOT / 'tools/look.py')} "
        "run/boxes.py 'run/best 1.pth' --out looks/boxes"]
    monkeypatch.chdir(ROOT)
    hook.after_test_epoch(runner, METRICS)
    assert lines[3] == 'test: AP 41.2, AP50 70.0 (boxes)'
    assert lines[-1].endswith('/run/boxes.py best.pth --out looks/boxes')


@pytest.mark.parametrize('folder', ['.mim/tools', '../tools'])
def test_the_command_exists_in_a_wheel_and_a_clone(tmp_path, monkeypatch,
                                                   folder):
    package = tmp_path / 'site/qbheat_mm'
    (package / 'detection').mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(summary, '__file__',
                        str(package / 'detection/summary.py'))
    (package / folder).mkdir(parents=True)
    assert Path(summary._find_tool('look.py')).parent.is_dir()


def test_nothing_found_is_no_error(caplog):
    logger = MMLogger.get_instance('nothing', logger_name='nothing')
    MMLogger._instance_dict['current'] = logger
    logger.addHandler(caplog.handler)
    metric = MatchedCocoMetric(metric=['bbox', 'segm'])
    metric.dataset_meta = dict(classes=('a', ))
    nothing = dict(img_id=1, bboxes=np.zeros((0, 4)), scores=np.zeros(0),
                   labels=np.zeros(0, int))
    truth = dict(img_id=1, width=9, height=9, anns=[
        dict(bbox=[1, 1, 5, 5], bbox_label=0, ignore_flag=0)])
    metrics = metric.compute_metrics([(truth, nothing)])
    assert metrics['bbox_mAP'] == metrics['segm_mAP_50'] == 0
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
