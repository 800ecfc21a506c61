# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Annotation files, classes and heads that do not fit stop at once."""
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmdet.registry import DATASETS
from mmdet.structures import DetDataSample
from mmdet.visualization import DetLocalVisualizer
from mmengine.runner import Runner
from mmengine.structures import InstanceData

from qbheat_mm.detection.check_classes_hook import CheckClassesHook
from qbheat_mm.errors import UserError

from .conftest import CLASSES, write_coco


def build(root, classes, **kwargs):
    if classes is not None:
        kwargs['metainfo'] = dict(classes=classes)
    return DATASETS.build(dict(
        type='MatchedCocoDataset', data_root=str(root), ann_file='ann.json',
        data_prefix=dict(img=''), **kwargs))


def labels_of(dataset):
    return [dataset.metainfo['classes'][box['bbox_label']]
            for i in range(len(dataset))
            for box in dataset.get_data_info(i)['instances']
            if not box['ignore_flag']]


@pytest.mark.parametrize('classes', [CLASSES, CLASSES[::-1]])
def test_labels_follow_the_classes(coco_root, classes):
    assert labels_of(build(coco_root, classes)) == ['disc', 'square', 'ring']


@pytest.mark.parametrize('classes', [
    ('disc', 'square'), ('disc', 'square', 'ring', 'cross'),
    ('cat', 'dog', 'cow'), ('disc', 'square', 'rings'), None])
def test_other_classes_are_named(coco_root, classes):
    with pytest.raises(UserError) as error:
        build(coco_root, classes)
    message = str(error.value)
    assert str(coco_root / 'ann.json') in message
    assert str(list(CLASSES)) in message
    assert str(list(classes)) if classes else "'toothbrush']" in message


def test_a_subset_on_purpose(coco_root):
    dataset = build(coco_root, ('ring', 'disc'), allow_subset=True)
    assert labels_of(dataset) == ['disc', 'ring']


def test_a_head_with_another_number_of_classes(tiny_config):
    tiny_config.model.bbox_head.num_classes = 80
    for method in ('train', 'val', 'test'):
        runner = Runner.from_cfg(tiny_config)
        with pytest.raises(UserError, match='num_classes=80.*num_classes=3'):
            getattr(runner, method)()


@pytest.mark.parametrize('heads', [
    dict(bbox_head=3, mask_head=2), {'bbox_head.0': 3, 'bbox_head.1': 80}])
def test_every_head_is_compared(heads):
    model = torch.nn.Module()
    for name, number in heads.items():
        part, _, index = name.partition('.')
        head = torch.nn.Module()
        head.num_classes = number
        if not index:
            model.add_module(part, head)
        else:
            if not hasattr(model, part):
                model.add_module(part, torch.nn.ModuleList())
            getattr(model, part).append(head)
    loader = SimpleNamespace(
        dataset=SimpleNamespace(metainfo=dict(classes=CLASSES)))
    wrong = [*heads][-1]
    with pytest.raises(UserError, match=rf'model\.{wrong}\.num_classes=3'):
        CheckClassesHook._check_head(SimpleNamespace(model=model), loader)


@pytest.fixture
def trained(tiny_config):
    """A config, and the checkpoint of one epoch."""
    runner = Runner.from_cfg(tiny_config)
    runner.train()
    return tiny_config, f'{runner.work_dir}/epoch_1.pth'


def use(cfg, root, classes, *parts):
    write_coco(root, classes=classes)
    for part in parts:
        cfg[f'{part}_dataloader'].dataset.update(
            data_root=str(root), metainfo=dict(classes=classes))
        if part != 'train':
            cfg[f'{part}_evaluator'].ann_file = str(root / 'ann.json')


def test_labels_mean_the_same_in_every_part(trained, tmp_path):
    cfg, checkpoint = trained
    use(cfg, tmp_path, ('ring', 'square', 'disc'), 'val', 'test')
    with pytest.raises(UserError, match='of the validation set, .*order'):
        Runner.from_cfg(cfg).train()
    cfg.load_from = checkpoint
    with pytest.raises(UserError, match='those of the checkpoint'):
        Runner.from_cfg(cfg).test()


def test_a_resumed_run_keeps_its_classes(trained, tmp_path):
    cfg, checkpoint = trained
    use(cfg, tmp_path, ('ring', 'square', 'disc'), 'train', 'val')
    cfg.load_from, cfg.resume = checkpoint, True
    cfg.train_cfg.max_epochs = 2
    with pytest.raises(UserError, match='those of the checkpoint'):
        Runner.from_cfg(cfg).train()
    # A new run may start from the weights.
    cfg.resume = False
    Runner.from_cfg(cfg).train()


def test_more_classes_than_colors_can_be_drawn(tmp_path):
    classes = tuple(f'class {i}' for i in range(100))
    write_coco(tmp_path, classes=classes)
    visualizer = DetLocalVisualizer()
    visualizer.dataset_meta = build(tmp_path, classes).metainfo
    sample = DetDataSample(pred_instances=InstanceData(
        bboxes=torch.tensor([[1., 1., 9., 9.]]), labels=torch.tensor([90]),
        scores=torch.tensor([.9])))
    visualizer.add_datasample('a', np.zeros((16, 16, 3), np.uint8), sample,
                              draw_gt=False)


def test_a_folder_as_text_is_refused(coco_root):
    with pytest.raises(UserError, match=r"data_prefix=dict\(img='images/'\)"):
        DATASETS.build(dict(
            type='MatchedCocoDataset', ann_file='a.json',
            data_root=str(coco_root), data_prefix='images/'))
