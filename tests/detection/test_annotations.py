# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Nothing in an annotation file changes what is trained on in silence."""
import copy
import json

import numpy as np
import pytest
import torch
from mmdet.registry import DATASETS, METRICS
from mmengine.runner import Runner

from qbheat_mm.annotations import check_annotations
from qbheat_mm.detection import coco_dataset
from qbheat_mm.errors import UserError

from .conftest import CLASSES, write_coco
from .wrong_annotations import CHANGES, naive_boxes, random_content


def build(ann_file, **kwargs):
    """A data set without pictures."""
    return DATASETS.build(dict(
        dict(type='MatchedCocoDataset', ann_file=str(ann_file),
             data_prefix=dict(img=''), metainfo=dict(classes=CLASSES)),
        **kwargs))


def boxes_of(dataset):
    """(image id, label, box, crowd) of all boxes of a data set."""
    return sorted(
        (str(info['img_id']), box['bbox_label'], *box['bbox'],
         box['ignore_flag'])
        for info in map(dataset.get_data_info, range(len(dataset)))
        for box in info['instances'])


def perfect_score(dataset, metric):
    """AP of the boxes of a data set as predictions of a metric's file."""
    metric.dataset_meta = dataset.metainfo
    for info in map(dataset.get_data_info, range(len(dataset))):
        boxes = [box for box in info['instances'] if not box['ignore_flag']]
        metric.process({}, [dict(
            img_id=info['img_id'],
            ori_shape=(info['height'], info['width']),
            pred_instances=dict(
                bboxes=torch.tensor([box['bbox'] for box in boxes],
                                    dtype=torch.float64).reshape(-1, 4),
                scores=torch.ones(len(boxes)),
                labels=torch.tensor([box['bbox_label'] for box in boxes],
                                    dtype=torch.int64)))])
    return metric.evaluate(len(dataset))['coco/bbox_mAP']


@pytest.fixture
def reports(monkeypatch):
    """What data sets find in their files, in turn."""
    reports = []

    def check(*args, **kwargs):
        checked = check_annotations(*args, **kwargs)
        reports.append(checked.report)
        return checked

    monkeypatch.setattr(coco_dataset, 'check_annotations', check)
    return reports


@pytest.mark.parametrize('block', range(10))
def test_changed_files_are_used_as_told_or_refused(tmp_path, reports, block):
    used = 0
    for seed in range(30 * block, 30 * block + 30):
        rng = np.random.default_rng(seed)
        content = random_content(rng, CLASSES)
        for _ in range(rng.integers(1, 4)):
            CHANGES[rng.integers(len(CHANGES))](rng, content)
        file = tmp_path / f'{seed}.json'
        file.write_text(json.dumps(content))
        try:
            dataset = build(file)
            metric = METRICS.build(
                dict(type='MatchedCocoMetric', ann_file=str(file)))
        except UserError as error:
            assert '\n' not in str(error) and str(file) in str(error)
            continue
        used += 1
        # Every box of the file is in the data set, or counted as left out.
        report = reports[-1]
        expected = naive_boxes(content, CLASSES)
        assert boxes_of(dataset) == expected, seed
        assert report.boxes == len(content['annotations']), seed
        assert report.kept == len(expected), seed
        assert report.count('dropped') == report.boxes - report.kept, seed
        if used == 1 and report.kept == report.boxes:  # the costly part
            assert perfect_score(dataset, metric) == 1, seed
    assert used > 3


def no_crowds(content):
    for each in content['annotations']:
        del each['iscrowd']
        each.pop('area')


def decimal_points(content):
    """As pandas writes the ids of a column that lacked some."""
    for key, names in (('categories', ['id']), ('images', ['id', 'width']),
                       ('annotations', ['id', 'image_id', 'category_id'])):
        for each in content[key]:
            each.update({name: float(each[name]) for name in names})


@pytest.mark.parametrize('change', [no_crowds, decimal_points])
def test_what_is_mended_does_not_end_the_first_validation(
        tiny_config, coco_root, change):
    content = json.loads((coco_root / 'ann.json').read_text())
    change(content)
    (coco_root / 'ann.json').write_text(json.dumps(content))
    tiny_config.val_evaluator.classwise = True
    runner = Runner.from_cfg(tiny_config)
    runner.train()
    assert 'val/coco/bbox_mAP' in runner.message_hub.log_scalars


def test_an_evaluator_that_reads_another_way_or_file(tiny_config, coco_root,
                                                     tmp_path):
    content = json.loads((coco_root / 'ann.json').read_text())
    content['images'][0]['id'] = 77
    content['annotations'][0]['image_id'] = 77
    (tmp_path / 'other.json').write_text(json.dumps(content))
    evaluator = tiny_config.val_evaluator
    right, evaluator.ann_file = evaluator.ann_file, str(tmp_path /
                                                        'other.json')
    with pytest.raises(UserError, match='val_evaluator.ann_file=.*ann.json'):
        Runner.from_cfg(tiny_config).train()
    content['annotations'][0]['id'] = 0
    (coco_root / 'ann.json').write_text(json.dumps(content))
    evaluator.update(ann_file=right, type='CocoMetric')
    with pytest.raises(UserError, match='type=MatchedCocoMetric'):
        Runner.from_cfg(tiny_config).train()


@pytest.mark.parametrize('kind', ['MatchedCocoMetric', 'CocoMetric'])
def test_an_evaluator_without_a_file_needs_the_boxes(tiny_config, kind):
    tiny_config.val_evaluator.update(ann_file=None, type=kind)
    with pytest.raises(UserError, match=r'set --cfg-options '
                       r'val_evaluator\.ann_file=.*ann\.json, or '):
        Runner.from_cfg(tiny_config).train()
    *_, pack = tiny_config.val_dataloader.dataset.pipeline
    pack.meta_keys = ('img_id', 'img_path', 'ori_shape', 'img_shape',
                      'scale_factor', 'instances')
    runner = Runner.from_cfg(tiny_config)
    runner.train()
    assert 'val/coco/bbox_mAP' in runner.message_hub.log_scalars


def test_an_evaluator_that_reads_others_under_the_same_ids(
        tiny_config, coco_root, tmp_path):
    """Exporters number the images of each file from the start."""
    content = json.loads((coco_root / 'ann.json').read_text())
    file = tmp_path / 'other.json'
    tiny_config.val_evaluator.ann_file = str(file)

    def refusal():
        file.write_text(json.dumps(content))
        with pytest.raises(UserError, match='val_evaluator.ann_file=.*ann'
                           ) as error:
            Runner.from_cfg(tiny_config).train()
        return str(error.value)

    categories = content['categories']
    content['categories'] = [
        dict(each, id=number) for each, number in zip(categories, (2, 3, 1))]
    assert 'have the ids [1, 2, 3], and in the' in refusal()
    content['categories'] = categories
    content['images'][1]['file_name'] = 'another.png'
    assert '1 of 4 images of' in refusal() and 'another.png' in refusal()


def test_an_evaluator_of_masks_that_nothing_predicts(tiny_config):
    tiny_config.val_evaluator.metric = ['bbox', 'segm']
    with pytest.raises(UserError, match='val_evaluator.metric=bbox'):
        Runner.from_cfg(tiny_config).train()


def test_masks_are_looked_at_where_they_are_used(coco_root, tmp_path):
    """By the data set that loads them and by the evaluator of them."""
    content = json.loads((coco_root / 'ann.json').read_text())
    for each in content['annotations']:
        each['segmentation'] = []
    file = tmp_path / 'ann.json'
    file.write_text(json.dumps(content))
    boxes = dict(type='LoadAnnotations', with_bbox=True)
    build(file, pipeline=[boxes])
    with pytest.raises(UserError, match='of .* objects have no mask'):
        build(file, pipeline=[dict(boxes, with_mask=True)])
    metric = dict(type='MatchedCocoMetric', ann_file=str(file))
    METRICS.build(dict(metric, metric='bbox'))
    with pytest.raises(UserError, match='of .* objects have no mask'):
        METRICS.build(dict(metric, metric=['bbox', 'segm']))


def test_validation_data_are_checked_before_training(tiny_config, tmp_path):
    root = tmp_path / 'val'
    root.mkdir()
    file = write_coco(root)
    content = json.loads((root / 'ann.json').read_text())
    for each in content['annotations']:
        each['category_id'] -= 1
    (root / 'ann.json').write_text(json.dumps(content))
    tiny_config.val_dataloader.dataset.data_root = str(root)
    tiny_config.val_evaluator.ann_file = file
    runner = Runner.from_cfg(tiny_config)
    with pytest.raises(UserError, match='number both alike'):
        runner.train()
    assert runner.iter == 0


def test_pictures_of_another_size_stop(coco_root, tiny_config):
    content = json.loads((coco_root / 'ann.json').read_text())
    right = copy.deepcopy(content)
    content['images'][1].update(width=40, height=48)
    (coco_root / 'ann.json').write_text(json.dumps(content))
    settings = tiny_config.train_dataloader.dataset
    with pytest.raises(UserError, match="'1.png', 40x48 in the file and "
                       '48x80 when loaded'):
        DATASETS.build(settings)
    right['images'][3]['file_name'] = 'none.png'
    (coco_root / 'ann.json').write_text(json.dumps(right))
    with pytest.raises(UserError, match='1 of 4 images are not there.*none'):
        DATASETS.build(settings)
    (coco_root / 'none.png').write_bytes(b'no image')
    with pytest.raises(UserError, match='1 of 4 images cannot be used.*none'):
        DATASETS.build(settings)


@pytest.mark.parametrize('loader', ['LoadNamedImageFromFile',
                                    'LoadImageFromFile'])
def test_pictures_that_training_skips_are_told_before_it(coco_root, reports,
                                                         loader):
    def told():
        build(coco_root / 'ann.json', data_prefix=dict(img=str(coco_root)),
              pipeline=[dict(type=loader, ignore_empty=True)])
        return [line for line in reports[-1].warnings()
                if ' of 4 images ' in line]

    assert not told()
    (coco_root / '3.png').write_bytes(b'no image')
    line, = told()
    assert line.startswith('1 of 4 images cannot be used and are skipped')
    assert 'damaged or no image' not in line, 'the reason is known'
    content = json.loads((coco_root / 'ann.json').read_text())
    content['images'][1].update(width=40, height=48)
    (coco_root / 'ann.json').write_text(json.dumps(content))
    assert any('40x48 in the file and 48x80 when loaded' in line
               for line in told())
    for i in range(4):
        (coco_root / f'{i}.png').write_bytes(b'no image')
    with pytest.raises(UserError, match='4 of 4 images cannot be used'):
        told()


def test_images_that_are_filtered_out_are_told(coco_root):
    with pytest.raises(UserError, match='4 of 4 images .*filter_empty_gt'):
        build(coco_root / 'ann.json', filter_cfg=dict(min_size=100))
    dataset = build(coco_root / 'ann.json', filter_cfg=dict(min_size=50))
    assert len(dataset) == 2


def test_a_test_set_without_boxes_is_asked_for(coco_root):
    content = json.loads((coco_root / 'ann.json').read_text())
    del content['annotations']
    (coco_root / 'ann.json').write_text(json.dumps(content))
    with pytest.raises(UserError, match="list 'annotations' is absent"):
        build(coco_root / 'ann.json', test_mode=True)
    assert len(build(coco_root / 'ann.json', unlabelled=True)) == 4
    METRICS.build(dict(
        type='MatchedCocoMetric', ann_file=str(coco_root / 'ann.json'),
        format_only=True, outfile_prefix='x'))
