# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The tool for errors of detectors, on two images whose errors are known."""
import json
import pickle

import pytest
import torch
from mmcv import imwrite
from mmengine.config import Config

from ...conftest import run_tool

pytest.importorskip('mmdet')


def annotation(number, image, category, box, area=None, iscrowd=0):
    return dict(id=number, image_id=image, category_id=category, bbox=box,
                area=area or box[2] * box[3], iscrowd=iscrowd)


@pytest.fixture
def run(tmp_path):
    for i in (1, 2):
        imwrite(torch.full((200, 200, 3), 80 * i).byte().numpy(),
                str(tmp_path / f'{i}.png'))
    (tmp_path / 'a.json').write_text(json.dumps(dict(
        images=[dict(id=i, file_name=f'{i}.png', height=200, width=200)
                for i in (1, 2)],
        # Neither ids nor their order are labels.
        categories=[dict(id=5, name='cat'), dict(id=2, name='dog')],
        annotations=[
            annotation(1, 1, 5, [10, 10, 20, 20]),
            annotation(2, 1, 2, [50, 50, 60, 60]),
            annotation(3, 1, 5, [120, 0, 80, 80], iscrowd=1),
            annotation(4, 2, 2, [0, 0, 150, 150], area=2000)])))
    Config(dict(
        default_scope='mmdet',
        test_dataloader=dict(batch_size=1, num_workers=0, dataset=dict(
            type='CocoDataset', data_root=f'{tmp_path}/', ann_file='a.json',
            data_prefix=dict(img=''), test_mode=True,
            metainfo=dict(classes=('cat', 'dog')),
            pipeline=[dict(type='LoadImageFromFile')])),
        test_evaluator=dict(type='CocoMetric', metric='bbox',
                            ann_file=f'{tmp_path}/a.json'))).dump(
        tmp_path / 'a.py')

    def call(*options):
        run_tool('analysis/detections.py', tmp_path / 'a.py',
                 tmp_path / 'found.pkl', '--out', tmp_path, *options)
        return json.loads((tmp_path / 'detections.json').read_text())

    return call


def predictions(*images):
    """Boxes with labels and scores, image by image."""
    return [dict(img_id=i, ori_shape=(200, 200), pred_instances=dict(
        bboxes=torch.tensor([row[:4] for row in rows]).view(-1, 4).float(),
        labels=torch.tensor([row[4] for row in rows]).long(),
        scores=torch.tensor([row[5] for row in rows]).float()))
        for i, rows in enumerate(images, start=1)]


def test_found_confused_and_missed(run, tmp_path):
    (tmp_path / 'found.pkl').write_bytes(pickle.dumps(predictions(
        [(10, 10, 30, 30, 0, .9), (50, 50, 110, 110, 0, .8),
         (130, 10, 150, 30, 0, .7),  # on the crowd
         (150, 150, 170, 170, 1, .2)], [])))
    report = run()
    numbers = report['numbers']
    assert numbers['classes'] == ['cat', 'dog']
    assert numbers['confusions'] == [[1, 0, 0], [1, 0, 1], [0, 0, 0]]
    # Sizes are those of the annotations' areas, not of the boxes.
    assert numbers['sizes'] == dict(small=[1, 1], medium=[0, 2],
                                    large=[0, 0])
    assert list(numbers['errors'].values()) == [1, 1]
    assert report['pictures'] == ['confusions.png', 'errors.png']
    by_class = {row[0]: row for row in report['tables'][1]['rows']}
    assert by_class['cat'][-1] == pytest.approx(1)
    # The score counts.
    assert run('--score', '.1')['numbers']['confusions'][2] == [0, 1, 0]


def test_other_files_are_named(run, tmp_path):
    (tmp_path / 'found.pkl').write_bytes(pickle.dumps(predictions([])))
    with pytest.raises(SystemExit, match='2.png'):
        run()
    (tmp_path / 'found.pkl').write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(SystemExit, match='found.pkl'):
        run()
