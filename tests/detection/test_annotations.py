# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Data set and evaluator use an annotation file as it says."""
import json

import pytest
import torch
from mmdet.registry import DATASETS, METRICS
from mmengine.runner import Runner

from qbheat_mm.errors import UserError

from .conftest import CLASSES


def change(coco_root, function):
    path = coco_root / 'ann.json'
    content = json.loads(path.read_text())
    function(content)
    path.write_text(json.dumps(content))
    return str(path)


def build(ann_file, **kwargs):
    """A data set without images."""
    return DATASETS.build(dict(
        dict(type='MatchedCocoDataset', ann_file=str(ann_file),
             data_prefix=dict(img=''), metainfo=dict(classes=CLASSES)),
        **kwargs))


def boxes_of(dataset):
    return sorted(
        (info['img_id'], box['bbox_label'], *box['bbox'], box['ignore_flag'])
        for info in map(dataset.get_data_info, range(len(dataset)))
        for box in info['instances'])


def perfect_score(dataset, ann_file, **kwargs):
    """Metrics of the boxes of a data set as predictions."""
    metric = METRICS.build(dict(
        type='MatchedCocoMetric', ann_file=ann_file, **kwargs))
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
    return metric.evaluate(len(dataset))


def test_boxes_equal_those_of_mmdet(coco_root):
    path = str(coco_root / 'ann.json')
    theirs = boxes_of(build(path, type='CocoDataset'))
    assert boxes_of(build(path)) == theirs and len(theirs) == 4


def no_optional_values(content):
    for each in content['annotations']:
        del each['iscrowd'], each['area'], each['id']


def ids_from_zero(content):
    for i, each in enumerate(content['annotations']):
        each['id'] = i


@pytest.mark.parametrize('function', [no_optional_values, ids_from_zero])
def test_normalized_files_are_evaluated(coco_root, function):
    path = change(coco_root, function)
    found = perfect_score(build(path), path)['coco/bbox_mAP_50']
    assert found == perfect_score(
        build(path), path, classwise=True)['coco/bbox_mAP_50'] > 0.5


def test_a_box_with_an_unreadable_mask_is_no_false_positive(coco_root):
    def lose_a_mask(content):
        content['annotations'][0]['segmentation'] = []

    path = change(coco_root, lose_a_mask)
    pipeline = [dict(type='LoadAnnotations', with_bbox=True, with_mask=True)]
    dataset = build(path, pipeline=pipeline)
    info = dataset.get_data_info(0)
    assert [box['ignore_flag'] for box in info['instances']] == [1]
    metric = METRICS.build(dict(
        type='MatchedCocoMetric', ann_file=path, metric=['bbox', 'segm']))
    assert metric._coco_api.imgToAnns[0][0]['iscrowd'] == 1


def test_a_run_from_a_file_without_optional_values(tiny_config, coco_root):
    change(coco_root, no_optional_values)
    tiny_config.val_evaluator.classwise = True
    runner = Runner.from_cfg(tiny_config)
    runner.train()
    assert 'val/coco/bbox_mAP' in runner.message_hub.log_scalars


def renumber_categories(content):
    new = {1: 2, 2: 3, 3: 1}
    for each in content['categories']:
        each['id'] = new[each['id']]


def rename_an_image(content):
    content['images'][1]['file_name'] = 'another.png'


def renumber_an_image(content):
    content['images'][3]['id'] = 77


@pytest.mark.parametrize('function, words', [
    (renumber_categories, r'category ids \[2, 3, 1\]'),
    (rename_an_image, 'another.png'), (renumber_an_image, 'image 3 of')])
def test_an_evaluator_with_another_file_stops(tiny_config, coco_root,
                                              tmp_path, function, words):
    content = json.loads((coco_root / 'ann.json').read_text())
    function(content)
    other = tmp_path / 'other.json'
    other.write_text(json.dumps(content))
    tiny_config.val_evaluator.ann_file = str(other)
    with pytest.raises(UserError, match=f'{words}.*ann_file'):
        Runner.from_cfg(tiny_config).train()


def test_an_evaluator_of_masks_that_nothing_predicts(tiny_config):
    tiny_config.val_evaluator.metric = ['bbox', 'segm']
    with pytest.raises(UserError, match='val_evaluator.metric=bbox'):
        Runner.from_cfg(tiny_config).train()


def test_validation_data_are_checked_before_training(tiny_config, tmp_path,
                                                     coco_root):
    content = json.loads((coco_root / 'ann.json').read_text())
    content['annotations'][0]['category_id'] = 9
    path = tmp_path / 'val.json'
    path.write_text(json.dumps(content))
    tiny_config.val_dataloader.dataset.ann_file = str(path)
    runner = Runner.from_cfg(tiny_config)
    with pytest.raises(UserError, match='category_id=9'):
        runner.train()
    assert runner.iter == 0


def test_images_are_checked(coco_root, tiny_config):
    settings = tiny_config.train_dataloader.dataset
    DATASETS.build(settings)
    (coco_root / '3.png').unlink()
    with pytest.raises(UserError, match='1 of 4 images are missing.*3.png'):
        DATASETS.build(settings)


def test_images_that_are_filtered_out(coco_root):
    with pytest.raises(UserError, match='no image passes filter_cfg'):
        build(coco_root / 'ann.json', filter_cfg=dict(min_size=100))
    assert len(build(coco_root / 'ann.json',
                     filter_cfg=dict(min_size=50))) == 2


def test_a_test_set_without_boxes(coco_root):
    path = change(coco_root,
                  lambda content: content.update(annotations=[]))
    with pytest.raises(UserError, match='no boxes'):
        build(path, test_mode=True)
    assert len(build(path, unlabelled=True)) == 4
    METRICS.build(dict(type='MatchedCocoMetric', ann_file=path,
                       format_only=True, outfile_prefix='x'))
