# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Data sets, evaluators and heads agree on annotation files and classes."""
import json
import shutil

import pytest
import torch
from mmdet.registry import DATASETS, METRICS
from mmengine.runner import Runner

from qbheat_mm.errors import UserError

from .inputs import CLASSES


def change(root, function, target=None):
    """Write a changed annotation file; return its path."""
    content = json.loads((root / 'ann.json').read_text())
    function(content)
    path = target or root / 'ann.json'
    path.write_text(json.dumps(content))
    return str(path)


def build(root, classes=CLASSES, **kwargs):
    """A data set whose images are not loaded."""
    return DATASETS.build(dict(
        dict(type='MatchedCocoDataset', data_root=str(root),
             ann_file='ann.json', data_prefix=dict(img=''),
             metainfo=dict(classes=classes)), **kwargs))


def boxes_of(dataset):
    boxes = []
    for i in range(len(dataset)):
        info = dataset.get_data_info(i)
        for box in info['instances']:
            boxes.append((info['img_id'], box['bbox_label'], *box['bbox'],
                          box['ignore_flag']))
    return sorted(boxes)


def scores(dataset, metric, only=None):
    """Metrics when the objects, or those of one class, are predicted."""
    classes = dataset.metainfo['classes']
    metric.dataset_meta = dataset.metainfo
    for info in map(dataset.get_data_info, range(len(dataset))):
        boxes = [box for box in info['instances'] if not box['ignore_flag']
                 and only in (None, classes[box['bbox_label']])]
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


def make_metric(root, **kwargs):
    return METRICS.build(dict(type='MatchedCocoMetric', classwise=True,
                              ann_file=str(root / 'ann.json'), **kwargs))


def test_boxes_equal_those_of_mmdet(coco_root):
    theirs = boxes_of(build(coco_root, type='CocoDataset'))
    assert boxes_of(build(coco_root)) == theirs and len(theirs) == 4


def no_optional_values(content):
    for each in content['annotations']:
        del each['area'], each['id']
        if not each['iscrowd']:
            del each['iscrowd']


def test_normalized_files_are_evaluated(coco_root):
    expected = scores(build(coco_root), make_metric(coco_root))
    change(coco_root, no_optional_values)
    assert scores(build(coco_root), make_metric(coco_root)) == expected


def test_objects_without_a_mask_are_ignored(coco_root):
    """Detecting them is no false positive."""
    change(coco_root, lambda content: content['annotations'][0].update(
        segmentation=[]))
    dataset = build(coco_root, pipeline=[
        dict(type='LoadAnnotations', with_bbox=True, with_mask=True)])
    assert [box['ignore_flag']
            for box in dataset.get_data_info(0)['instances']] == [1]
    metric = make_metric(coco_root, metric=['bbox', 'segm'])
    assert metric._coco_api.imgToAnns[0][0]['iscrowd'] == 1


@pytest.mark.parametrize('ids', [(1, 2, 3), (7, 2, 30), (3, 2, 1)])
@pytest.mark.parametrize('classes', [
    CLASSES, ('ring', 'disc', 'square'), ('square', 'ring', 'disc')])
def test_a_class_has_its_own_label_and_precision(coco_root, tmp_path, ids,
                                                 classes):
    """Whatever order and ids the file gives the categories."""

    def renumber(content):
        del content['annotations'][2:4]  # the crowd and the flat box
        new = dict(zip((1, 2, 3), ids))
        for key, records in (('id', content['categories']),
                             ('category_id', content['annotations'])):
            for record in records:
                record[key] = new[record[key]]

    change(coco_root, renumber)
    dataset = build(coco_root, classes)
    assert [classes[box[1]] for box in boxes_of(dataset)] == [*CLASSES]
    metric = make_metric(coco_root, outfile_prefix=str(tmp_path / 'found'))
    for only in (*CLASSES, CLASSES[0]):  # evaluated again and again
        found = scores(dataset, metric, only)
        assert {name: found[f'coco/{name}_precision'] for name in CLASSES} == {
            name: float(name == only) for name in CLASSES}
        written = json.loads((tmp_path / 'found.bbox.json').read_text())
        assert {each['category_id'] for each in written} == {
            ids[CLASSES.index(only)]}


def test_a_subset_on_purpose(coco_root):
    dataset = build(coco_root, ('ring', 'disc'), allow_subset=True)
    assert [box[1] for box in boxes_of(dataset)] == [1, 0]


def test_each_of_many_classes_has_a_color(coco_root):
    """COCO's palette has 80 colors, which mmdet takes by default."""
    many = [f'class {i}' for i in range(90)]
    palette = build(coco_root, many, lazy_init=True).metainfo['palette']
    assert len(palette) == len({*palette}) == 90


def renumber_categories(content):
    for each in content['categories']:
        each['id'] = {1: 2, 2: 3, 3: 1}[each['id']]


def rename_an_image(content):
    content['images'][1]['file_name'] = 'another.png'


def renumber_an_image(content):
    content['images'][3]['id'] = 77


@pytest.mark.parametrize('kind, function, words', [
    ('CocoMetric', renumber_categories, r'category ids \[2, 3, 1\]'),
    ('MatchedCocoMetric', rename_an_image, 'another.png'),
    ('MatchedCocoMetric', renumber_an_image, 'image 3 of')])
def test_an_evaluator_with_another_file_stops(tiny_config, coco_root,
                                              tmp_path, kind, function,
                                              words):
    tiny_config.val_evaluator.update(
        type=kind, ann_file=change(coco_root, function, tmp_path / 'b.json'))
    with pytest.raises(UserError, match=f'{words}.*ann_file'):
        Runner.from_cfg(tiny_config).train()


def concat(*parts, kind='ConcatDataset'):
    return dict(type=kind, datasets=list(parts))


def wrap(part, kind='RepeatDataset', **settings):
    return dict(type=kind, dataset=part, **settings)


def mixed(part):
    return wrap(part, 'MultiImageMixDataset', pipeline=[])


def second_export(content):
    """Another tool numbers its own images from 0 on."""
    for image in content['images']:
        image['file_name'] = f'other_{image["file_name"]}'


WRAPPERS = [
    concat, lambda *parts: concat(*parts, kind='mmengine.ConcatDataset'),
    lambda *parts: concat(*map(mixed, parts)),
    lambda *parts: mixed(concat(*parts)),
    lambda *parts: wrap(concat(*parts), times=1),
    lambda *parts: wrap(concat(wrap(concat(*parts), times=1)), times=1)]


def validate_on(cfg, dataset, ann_file=None):
    cfg.val_dataloader.dataset = dataset
    cfg.val_evaluator.update(type='MatchedCocoMetric',
                             **(ann_file and dict(ann_file=ann_file) or {}))
    return Runner.from_cfg(cfg)


@pytest.fixture
def exports(tiny_config, coco_root, tmp_path):
    """Two exports for validation, whose images have the same ids."""
    for i in range(4):
        shutil.copy(coco_root / f'{i}.png', coco_root / f'other_{i}.png')
    other = change(coco_root, second_export, tmp_path / 'other.json')
    one = tiny_config.val_dataloader.dataset.to_dict()
    return one, dict(one, ann_file=other)


@pytest.mark.parametrize('wrapper', WRAPPERS)
@pytest.mark.parametrize('order', [1, -1])
def test_wrapped_data_sets_are_checked(tiny_config, exports, wrapper, order):
    """Perfect predictions had an AP of 0.8, with the file of the first."""
    runner = validate_on(tiny_config, wrapper(*exports[::order]))
    with pytest.raises(UserError, match='other_0.png.*ann_file') as error:
        runner.train()
    assert '\n' not in str(error.value) and runner.iter == 0


@pytest.mark.parametrize('wrapper', WRAPPERS)
def test_a_wrapped_data_set_is_evaluated(tiny_config, exports, wrapper):
    runner = validate_on(tiny_config, wrapper(exports[0]))
    runner.train()
    assert 'coco/bbox_mAP' in runner.val_loop.run()


def test_parts_of_one_file_are_evaluated(tiny_config, coco_root, exports,
                                         tmp_path):
    def merge(content):
        for kind in ('images', 'annotations'):
            for each in list(content[kind]):
                each = dict(each, id=each['id'] + 1000)
                if kind == 'images':
                    each['file_name'] = f'other_{each["file_name"]}'
                else:
                    each['image_id'] += 1000
                content[kind].append(each)

    def keep_second(content):
        merge(content)
        for kind in ('images', 'annotations'):
            content[kind] = [each for each in content[kind]
                             if each['id'] >= 1000]

    both = change(coco_root, merge, tmp_path / 'both.json')
    second = change(coco_root, keep_second, tmp_path / 'second.json')
    validate_on(tiny_config, concat(
        exports[0], dict(exports[0], ann_file=second)), both).train()


@pytest.mark.parametrize('wrapper', [
    lambda one: concat(one, one), lambda one: wrap(one, times=2),
    lambda one: wrap(one, 'ClassBalancedDataset', oversample_thr=1.)])
@pytest.mark.parametrize('with_file', [True, False])
def test_an_image_is_evaluated_once(tiny_config, exports, wrapper, with_file):
    one, _ = exports
    if not with_file:
        tiny_config.val_evaluator.pop('ann_file')
    with pytest.raises(UserError, match=r'has \d+ images, but only 4 ids'):
        validate_on(tiny_config, wrapper(one)).train()


@pytest.mark.parametrize('wrapper', [
    concat, lambda *parts: wrap(parts[0], times=2)])
@pytest.mark.parametrize('with_file', [True, False])
def test_metrics_stop_at_equal_ids_without_the_hook(coco_root, exports,
                                                    wrapper, with_file):
    dataset = DATASETS.build(wrapper(*exports))
    options = dict(ann_file=str(coco_root / 'ann.json')) if with_file else {}
    metric = METRICS.build(dict(type='MatchedCocoMetric', **options))
    metric.dataset_meta = dataset.metainfo
    found = dict(bboxes=torch.zeros(0, 4), scores=torch.zeros(0),
                 labels=torch.zeros(0))
    for i in range(len(dataset)):
        info = dataset.get_data_info(i)
        metric.process({}, [dict(
            img_id=info['img_id'], ori_shape=(info['height'], info['width']),
            instances=info['instances'], pred_instances=found)])
    with pytest.raises(UserError, match='8 images with 4 ids'):
        metric.evaluate(len(dataset))


def test_data_sets_of_one_wrapper_have_the_same_classes(tiny_config, exports):
    one, other = exports
    other = dict(other, metainfo=dict(classes=CLASSES[::-1]))
    with pytest.raises(UserError, match='other.json.* another order'):
        validate_on(tiny_config, concat(one, other)).train()


def test_validation_data_are_checked_before_training(tiny_config, tmp_path,
                                                     coco_root):
    tiny_config.val_dataloader.dataset.ann_file = change(
        coco_root,
        lambda content: content['annotations'][0].update(category_id=9),
        tmp_path / 'val.json')
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


def test_filtering_every_image_is_an_error(coco_root):
    with pytest.raises(UserError, match='no image passes filter_cfg'):
        build(coco_root, filter_cfg=dict(min_size=100))
    assert len(build(coco_root, filter_cfg=dict(min_size=50))) == 2


@pytest.mark.parametrize('function', [
    lambda content: content.update(annotations=[]),
    lambda content: content.pop('annotations')])
def test_a_test_set_without_boxes(coco_root, function):
    """COCO's own files of test images have no ``annotations``."""
    change(coco_root, function)
    with pytest.raises(UserError, match='no boxes'):
        build(coco_root, test_mode=True)
    dataset = build(coco_root, unlabeled=True)
    assert len(dataset) == 4 and not boxes_of(dataset)
    metric = make_metric(coco_root, format_only=True, outfile_prefix='x')
    dataset.check_metrics([metric], 'test_evaluator')
    assert len(build(coco_root, unlabeled=True, pipeline=[
        dict(type='LoadAnnotations', with_bbox=True, with_mask=True)])) == 4


def test_a_head_with_another_number_of_classes(tiny_config):
    tiny_config.model.bbox_head.num_classes = 80
    for method in ('train', 'val', 'test'):
        runner = Runner.from_cfg(tiny_config)
        with pytest.raises(UserError, match='num_classes=80.*num_classes=3'):
            getattr(runner, method)()


@pytest.mark.parametrize('wrong', ['mask_head', 'mask_head.1', 'head'])
def test_every_head_is_compared(tiny_config, wrong):
    """But no part of a head or of the backbone."""
    runner = Runner.from_cfg(tiny_config)
    for name, number in (('backbone.head', 1), ('head', 3), ('head.loss', 2),
                         ('mask_head', 3), ('mask_head.1', 3)):
        part = torch.nn.Module()
        part.num_classes = 80 if name == wrong else number
        parent, _, child = name.rpartition('.')
        runner.model.get_submodule(parent).add_module(child, part)
    with pytest.raises(UserError, match=rf'model\.{wrong}\.num_classes=3'):
        runner.test()


def test_a_prefix_as_text_is_refused(coco_root):
    with pytest.raises(UserError, match=r"data_prefix=dict\(img='images/'\)"):
        build(coco_root, data_prefix='images/')
