# Copyright (c) QB-Heat MM authors. All rights reserved.
"""tools/analysis/detections.py on predictions whose fate is known."""
import json
import runpy
import sys
from pathlib import Path

import mmengine
import numpy as np
import pytest
import torch

TOOL = Path(__file__).parents[2] / 'tools' / 'analysis' / 'detections.py'
OBJECT = [8., 8., 32., 28.]  # in each image of the tiny set but the last


def found(image, *boxes):
    """What tools/test.py writes of an image: boxes, labels, scores."""
    return dict(img_id=image, ori_shape=(64, 64), pred_instances=dict(
        bboxes=torch.tensor([box for box, _, _ in boxes]).reshape(-1, 4),
        labels=torch.tensor([label for _, label, _ in boxes]).long(),
        scores=torch.tensor([score for _, _, score in boxes])))


@pytest.fixture
def call(tiny_config, tmp_path, monkeypatch):
    """A function that runs the tool and returns its report."""

    def call_tool(predictions):
        mmengine.dump(predictions, tmp_path / 'found.pkl')
        tiny_config.dump(tmp_path / 'config.py')
        monkeypatch.setattr(sys, 'argv', [
            str(TOOL), str(tmp_path / 'config.py'),
            str(tmp_path / 'found.pkl'), '--out', str(tmp_path / 'out')])
        runpy.run_path(str(TOOL), run_name='__main__')
        return json.loads(
            (tmp_path / 'out' / 'detections.json').read_text())['numbers']

    return call_tool


def test_found_confused_missed_and_on_a_crowd(call):
    """The second image has a crowd where its object is."""
    numbers = call([
        found(0, (OBJECT, 1, .9)),  # a disc, found as a square
        found(1, (OBJECT, 1, .9), ([10., 10., 20., 20.], 1, .8)),
        found(2),
        found(3, ([50., 10., 70., 30.], 0, .7), (OBJECT, 2, .1))])
    # rows: disc, square, ring, nothing; the last column: missed
    assert numbers['confusions'] == [
        [0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]]
    assert [Path(file).name for file in numbers['errors']] == [
        '0.png', '2.png', '3.png']
    assert numbers['sizes']['small'] == [1, 3]


def test_all_found(call):
    numbers = call([
        *(found(i, (OBJECT, i, .9)) for i in range(3)), found(3)])
    assert numbers['errors'] == {}
    assert numbers['metrics']['disc_precision'] == 1
    assert numbers['metrics']['ring_precision'] == 1


def test_recall_and_ap_of_a_size_are_of_the_same_objects(call, coco_root):
    """COCO sorts by the annotation's area, as that of a mask."""
    file = coco_root / 'ann.json'
    content = json.loads(file.read_text())
    for item in content['annotations']:
        if item['id'] == 3:  # large in a small box, for want of large pictures
            item['area'] = 10000
    file.write_text(json.dumps(content))
    numbers = call([
        found(0, (OBJECT, 0, .9)), found(1), found(2), found(3)])
    assert numbers['sizes'] == dict(small=[1, 2], medium=[0, 0], large=[0, 1])
    assert numbers['metrics']['bbox_mAP_s'] == pytest.approx(.5)
    assert numbers['metrics']['bbox_mAP_l'] == 0


def test_a_class_has_its_own_ap_whatever_its_name(call, coco_root,
                                                  tiny_config):
    file, names = coco_root / 'ann.json', ('truck', 'car/truck', 'ring')
    content = json.loads(file.read_text())
    for item, name in zip(content['categories'], names):
        item['name'] = name
    file.write_text(json.dumps(content))
    tiny_config.test_dataloader.dataset.metainfo.classes = names
    metrics = call([
        found(0, (OBJECT, 0, .9)), found(1), found(2), found(3)])['metrics']
    assert metrics['truck_precision'] == 1
    assert metrics['car/truck_precision'] == 0


def test_nothing_found_at_all(call, capsys):
    """mmdet has no metrics then; what was missed is asked all the more."""
    numbers = call([found(i) for i in range(4)])
    assert numbers['metrics'] == {}
    assert [row[-1] for row in numbers['confusions'][:3]] == [1, 1, 1]
    assert 'nothing was found in any image' in capsys.readouterr().out


@pytest.mark.parametrize('option, message', [
    (('--iou', '0'), '--iou 0.0 must be above 0'),
    (('--iou', '1.5'), '--iou 1.5 must be above 0'),
    (('--score', '-1'), '--score -1.0 must be from 0 to 1'),
    (('--score', 'nan'), '--score nan must be from 0 to 1')])
def test_thresholds_that_mean_nothing(option, message, monkeypatch):
    monkeypatch.setattr(sys, 'argv', [
        'detections.py', 'a.py', 'b.pkl', '--out', 'c', *option])
    with pytest.raises(SystemExit, match=message):
        runpy.run_path(str(TOOL), run_name='__main__')


def test_columns_by_class():
    tables_of = runpy.run_path(str(TOOL))['tables_of']
    # rows: cat, dog, nothing; columns: cat, dog, missed
    table = np.array([[5, 1, 2], [3, 4, 9], [6, 7, 0]])
    by_class, = (t for t in tables_of(table, {}, {}, ['cat', 'dog'])
                 if t.title == 'By class')
    assert [row[:-1] for row in by_class.rows] == [
        ['cat', 8, 5, 1, 2, 6], ['dog', 16, 4, 3, 9, 7]]
