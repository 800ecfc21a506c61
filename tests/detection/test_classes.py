"""Annotation files, classes and heads that do not fit stop at once."""
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmdet.models import DetTTAModel
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
    return DATASETS.build(
        dict(
            type='MatchedCocoDataset',
            data_root=str(root),
            ann_file='ann.json',
            data_prefix=dict(img=''),
            **kwargs))


def test_matching_classes_are_read(coco_root):
    dataset = build(coco_root, CLASSES)
    labels = [
        instance['bbox_label'] for i in range(len(dataset))
        for instance in dataset.get_data_info(i)['instances']
        if not instance['ignore_flag']
    ]
    assert labels == [0, 1, 2]


@pytest.mark.parametrize('classes', [
    ('disc', 'square'),
    ('disc', 'square', 'ring', 'cross'),
    ('cat', 'dog', 'cow'),
    ('disc', 'square', 'rings'),
    None,
])
def test_other_classes_are_named(coco_root, classes):
    with pytest.raises(UserError) as error:
        build(coco_root, classes)
    message = str(error.value)
    assert '\n' not in message and str(coco_root / 'ann.json') in message
    assert str(list(CLASSES)) in message
    assert str(list(classes)) if classes else "'toothbrush']" in message


def test_subset_on_purpose(coco_root):
    dataset = build(coco_root, ('disc', 'ring'), allow_subset=True)
    assert dataset.metainfo['classes'] == ('disc', 'ring')
    turned = build(coco_root, ('ring', 'disc'), allow_subset=True)
    assert [turned.metainfo['classes'][box['bbox_label']] for i in range(4)
            for box in turned.get_data_info(i)['instances']
            ] == [dataset.metainfo['classes'][box['bbox_label']]
                  for i in range(4)
                  for box in dataset.get_data_info(i)['instances']]


def test_head_with_another_number_of_classes(tiny_config):
    tiny_config.model.bbox_head.num_classes = 80
    for method in ('train', 'val', 'test'):
        runner = Runner.from_cfg(tiny_config)
        with pytest.raises(UserError, match='num_classes=80.*num_classes=3'):
            getattr(runner, method)()


def test_runner_stops_before_training(tiny_config, tmp_path):
    write_coco(tmp_path, classes=('cat', 'dog', 'cow'))
    tiny_config.val_dataloader.dataset.data_root = str(tmp_path)
    with pytest.raises(UserError, match="'cat', 'dog', 'cow'.*'disc'"):
        Runner.from_cfg(tiny_config).train()


@pytest.fixture
def trained(tiny_config):
    """A configuration, and a checkpoint that one epoch of it has written."""
    runner = Runner.from_cfg(tiny_config)
    runner.train()
    return tiny_config, f'{runner.work_dir}/epoch_1.pth'


def test_labels_mean_the_same_as_in_training(trained, tmp_path):
    """Of another order the AP would be low, without a word."""
    cfg, checkpoint = trained
    write_coco(tmp_path, classes=('ring', 'square', 'disc'))
    for part in ('val', 'test'):
        cfg[f'{part}_dataloader'].dataset.update(
            data_root=str(tmp_path),
            metainfo=dict(classes=('ring', 'square', 'disc')))
        cfg[f'{part}_evaluator'].ann_file = str(tmp_path / 'ann.json')
    with pytest.raises(UserError, match="of the validation set, .*'ring' is "
                       'another label: give the validation set'):
        Runner.from_cfg(cfg).train()
    cfg.load_from = checkpoint
    with pytest.raises(UserError, match='those of the checkpoint, .* order'):
        Runner.from_cfg(cfg).test()


def test_classes_of_another_name_are_told(trained, tmp_path, monkeypatch):
    """As "vehicle" for "car": it may be meant."""
    lines = []
    monkeypatch.setattr('qbheat_mm.detection.check_classes_hook.print_log',
                        lambda line, **_: lines.append(line))
    cfg, checkpoint = trained
    names = ('disc', 'box', 'ring')
    write_coco(tmp_path, classes=names)
    cfg.test_dataloader.dataset.update(
        data_root=str(tmp_path), metainfo=dict(classes=names))
    cfg.test_evaluator.ann_file = str(tmp_path / 'ann.json')
    cfg.load_from = checkpoint
    Runner.from_cfg(cfg).test()
    assert lines == [
        'the test set calls classes otherwise than the checkpoint, and they '
        "count as the same: 'box' for 'square'"]


def test_a_run_goes_on_with_the_classes_that_it_learned(trained, tmp_path,
                                                        monkeypatch):
    lines = []
    monkeypatch.setattr('qbheat_mm.detection.check_classes_hook.print_log',
                        lambda line, **_: lines.append(line))
    cfg, checkpoint = trained
    names = ('ring', 'square', 'disc')
    write_coco(tmp_path, classes=names)
    for part in ('train', 'val'):
        cfg[f'{part}_dataloader'].dataset.update(
            data_root=str(tmp_path), metainfo=dict(classes=names))
    cfg.val_evaluator.ann_file = str(tmp_path / 'ann.json')
    cfg.load_from, cfg.resume = checkpoint, True
    cfg.train_cfg.max_epochs = 2
    with pytest.raises(UserError, match='those of the checkpoint, .* order'):
        Runner.from_cfg(cfg).train()
    assert not lines
    # who begins anew with the weights may mean it
    cfg.resume = False
    Runner.from_cfg(cfg).train()
    assert "'ring' is another label" in lines[0]


def test_a_wrapped_model_names_settings_that_are_there():
    """As one of several processes, or of test-time augmentation."""
    model = torch.nn.Module()
    model.bbox_head = torch.nn.Module()
    model.bbox_head.num_classes = 2
    runner = SimpleNamespace(model=DetTTAModel.__new__(DetTTAModel))
    torch.nn.Module.__init__(runner.model)
    runner.model.module = model
    loader = SimpleNamespace(dataset=SimpleNamespace(
        metainfo=dict(classes=CLASSES)))
    with pytest.raises(UserError, match=r'^num_classes=2 of bbox_head, .* '
                       r'model\.bbox_head\.num_classes=3$'):
        CheckClassesHook._check(runner, loader)


def test_each_head_that_tells_classes_is_named():
    """The boxes' alone would leave the masks', which breaks in training."""
    model = torch.nn.Module()
    model.roi_head = torch.nn.Module()
    for name, number in (('bbox_head', 2), ('mask_head', 2)):
        head = torch.nn.Module()
        head.num_classes = number
        model.roi_head.add_module(name, head)
    dataset = SimpleNamespace(metainfo=dict(classes=CLASSES))
    runner, loader = SimpleNamespace(model=model), SimpleNamespace(
        dataset=dataset)
    with pytest.raises(
            UserError, match='model.roi_head.bbox_head.num_classes=3 '
            'model.roi_head.mask_head.num_classes=3'):
        CheckClassesHook._check(runner, loader)
    model.roi_head.bbox_head.num_classes = 3
    with pytest.raises(UserError, match='num_classes=2 of roi_head.mask_head'):
        CheckClassesHook._check(runner, loader)
    model.roi_head.mask_head.num_classes = 3
    CheckClassesHook._check(runner, loader)


def test_heads_in_a_list_are_heads(monkeypatch):
    """As those of Cascade R-CNN."""
    head, loss = torch.nn.Module(), torch.nn.Module()
    head.num_classes, loss.num_classes = 80, 3
    model = torch.nn.Module()
    model.bbox_head = torch.nn.ModuleList([torch.nn.Module(), head])
    model.bbox_head[0].num_classes = 3
    head.loss_cls = loss
    loss.num_classes = 80  # as one that counts by itself
    runner, loader = SimpleNamespace(model=model), SimpleNamespace(
        dataset=SimpleNamespace(metainfo=dict(classes=CLASSES)))
    with pytest.raises(UserError, match=r'model\.bbox_head\.1\.num_classes=3$'
                       ):
        CheckClassesHook._check(runner, loader)


def test_more_classes_than_colours_can_be_drawn(tmp_path):
    classes = tuple(f'class {i}' for i in range(100))
    write_coco(tmp_path, classes=classes)
    dataset = build(tmp_path, classes)
    visualizer = DetLocalVisualizer()
    visualizer.dataset_meta = dataset.metainfo
    sample = DetDataSample(pred_instances=InstanceData(
        bboxes=torch.tensor([[1., 1., 9., 9.]]), labels=torch.tensor([90]),
        scores=torch.tensor([.9])))
    visualizer.add_datasample('a', np.zeros((16, 16, 3), np.uint8), sample,
                              draw_gt=False)
    assert build(tmp_path, classes, ).metainfo['palette'] == 'random'


def test_a_folder_as_text_is_told(coco_root):
    with pytest.raises(UserError, match=r"data_prefix=dict\(img='images/'\)"):
        DATASETS.build(dict(type='MatchedCocoDataset', ann_file='a.json',
                            data_root=str(coco_root), data_prefix='images/'))
