# Copyright (c) QB-Heat MM authors. All rights reserved.
import copy

import pytest
import torch
from mmengine.model import BaseModule, Sequential
from mmengine.registry import DefaultScope, init_default_scope
from mmpretrain.registry import MODELS
from torch import nn

from qbheat_mm.engine import pretrained_encoder
from qbheat_mm.errors import UserError

RESNET = dict(type='mmpretrain.ResNet', depth=18, base_channels=4,
              stem_channels=4)
CONVNEXT = dict(type='mmpretrain.ConvNeXt',
                arch=dict(depths=[1, 1, 1, 1], channels=[4, 8, 8, 8]))
HEAD = dict(type='mmpretrain.LinearClsHead', num_classes=2, in_channels=32)


@pytest.fixture(autouse=True)
def mmpretrain_scope():
    init_default_scope('mmpretrain')
    yield
    DefaultScope._instance_dict.clear()


def random_weights(backbone):
    """State dict of which every tensor differs from any initial value."""
    state = MODELS.build(copy.deepcopy(backbone)).state_dict()
    for name, tensor in state.items():
        if tensor.is_floating_point():
            torch.nn.init.uniform_(tensor, 0.5, 1.5)
        else:
            state[name] = torch.full_like(tensor, 7)
    return state


def classifier(backbone, checkpoint):
    cfg = dict(backbone)
    cfg['init_cfg'] = dict(type='PretrainedEncoder', checkpoint=checkpoint)
    return MODELS.build(dict(type='mmpretrain.ImageClassifier', backbone=cfg,
                             neck=dict(type='mmpretrain.GlobalAveragePooling'),
                             head=HEAD))


def save(path, state, prefix='backbone.', key='state_dict', **extra):
    content = {prefix + name: tensor for name, tensor in state.items()}
    content.update(extra)
    torch.save({key: content} if key else content, path)
    return str(path)


@pytest.mark.parametrize('backbone', [RESNET, CONVNEXT])
@pytest.mark.parametrize('prefix,key', [('backbone.', 'state_dict'),
                                        ('module.backbone.', 'state_dict'),
                                        ('encoder.', 'model'), ('', None)])
def test_init_weights_leaves_the_weights_of_the_file(tmp_path, backbone,
                                                     prefix, key):
    state = random_weights(backbone)
    file = save(tmp_path / 'a.pth', state, prefix, key)
    model = classifier(backbone, file)
    model.init_weights()
    for name, tensor in model.backbone.state_dict().items():
        assert torch.equal(tensor, state[name]), name
    # The rest of the model is initialised as ever: LinearClsHead has std 0.01.
    assert 0 < model.head.fc.weight.std() < 0.03


def test_a_bare_classifier_gives_its_body(tmp_path):
    state = random_weights(RESNET)
    file = save(tmp_path / 'a.pth', state, '', None,
                **{'fc.weight': torch.ones(1000, 32),
                   'fc.bias': torch.ones(1000)})
    model = classifier(RESNET, file)
    model.init_weights()
    for name, tensor in model.backbone.state_dict().items():
        assert torch.equal(tensor, state[name]), name


def test_parts_with_an_initialisation_of_their_own_keep_the_weights(tmp_path):

    class Backbone(BaseModule):

        def __init__(self, init_cfg=None):
            super().__init__(init_cfg)
            self.part = Sequential(
                nn.Linear(2, 2),
                init_cfg=dict(type='Constant', layer='Linear', val=5.))

    state = {name: tensor + 1
             for name, tensor in Backbone().state_dict().items()}
    backbone = Backbone(dict(type='PretrainedEncoder',
                             checkpoint=save(tmp_path / 'a.pth', state)))
    Sequential(backbone).init_weights()
    assert torch.equal(backbone.part[0].weight, state['part.0.weight'])


def test_init_weights_of_a_detector_leaves_the_weights(tmp_path):
    mmdet = pytest.importorskip('mmdet.registry')
    init_default_scope('mmdet')
    state = random_weights(dict(RESNET, out_indices=(2, 3)))
    file = save(tmp_path / 'a.pth', state)
    model = mmdet.MODELS.build(dict(
        type='mmdet.RetinaNet',
        backbone=dict(RESNET, out_indices=(2, 3), frozen_stages=4,
                      init_cfg=dict(type='PretrainedEncoder',
                                    checkpoint=file)),
        neck=dict(type='mmdet.FPN', in_channels=[16, 32], out_channels=8,
                  num_outs=3),
        bbox_head=dict(
            type='mmdet.RetinaHead', num_classes=2, in_channels=8,
            feat_channels=8, stacked_convs=1,
            anchor_generator=dict(
                type='mmdet.AnchorGenerator', octave_base_scale=4,
                scales_per_octave=1, ratios=[1.], strides=[16, 32, 64]))))
    model.init_weights()
    for name, tensor in model.backbone.state_dict().items():
        assert torch.equal(tensor, state[name]), name


def test_it_logs_how_many_tensors_came_from_where(tmp_path, monkeypatch):
    lines = []
    monkeypatch.setattr(pretrained_encoder, 'print_log',
                        lambda line, logger: lines.append(line))
    state = random_weights(RESNET)
    # A momentum encoder of the same size must not be taken for the encoder.
    extra = {f'teacher.{name}': torch.zeros_like(tensor)
             for name, tensor in state.items()}
    file = save(tmp_path / 'a.pth', state, **extra)
    model = classifier(RESNET, file)
    model.init_weights()
    assert lines == [f'loaded {len(state)} tensors of ResNet from {file}']
    assert torch.equal(model.backbone.conv1.weight, state['conv1.weight'])


def refusal(backbone, checkpoint):
    model = classifier(backbone, checkpoint)
    with pytest.raises(UserError) as error:
        model.init_weights()
    assert '\n' not in str(error.value)
    return str(error.value)


def test_no_checkpoint_is_an_error_with_the_way_out():
    message = refusal(RESNET, None)
    assert 'model.backbone.init_cfg.checkpoint=FILE' in message
    assert 'model.backbone.init_cfg=None' in message


def test_a_missing_file_is_named():
    with pytest.raises(FileNotFoundError, match='nowhere.pth'):
        classifier(RESNET, 'nowhere.pth').init_weights()


def test_a_missing_tensor_is_an_error(tmp_path):
    state = random_weights(RESNET)
    del state['layer2.0.conv1.weight']
    message = refusal(RESNET, save(tmp_path / 'a.pth', state))
    assert 'layer2.0.conv1.weight' in message and 'ResNet' in message


def test_counters_of_batch_norm_may_be_missing(tmp_path):
    state = {name: tensor for name, tensor in random_weights(RESNET).items()
             if not name.endswith('num_batches_tracked')}
    model = classifier(RESNET, save(tmp_path / 'a.pth', state))
    model.init_weights()
    assert torch.equal(model.backbone.conv1.weight, state['conv1.weight'])


def test_another_width_names_both_shapes_and_the_architecture(tmp_path):
    wide = dict(RESNET, base_channels=8, stem_channels=8)
    content = {f'backbone.{name}': tensor
               for name, tensor in random_weights(wide).items()}
    cfg = "model = dict(backbone=dict(arch='wide', depth=18, type='ResNet'))"
    file = tmp_path / 'a.pth'
    torch.save(dict(state_dict=content, meta=dict(cfg=cfg)), file)
    message = refusal(RESNET, str(file))
    assert 'conv1.weight: shape (8, 3, 7, 7), not (4, 3, 7, 7)' in message
    assert "trained with ResNet(arch='wide', depth=18)" in message


@pytest.mark.parametrize('prefix', ['backbone.', ''])
def test_a_deeper_network_is_another_architecture(tmp_path, prefix):
    deep = random_weights(dict(RESNET, depth=34))
    shallow = random_weights(RESNET)
    assert shallow.keys() < deep.keys()
    message = refusal(RESNET, save(tmp_path / 'a.pth', deep, prefix))
    assert 'are not part of it (layer1.2.' in message


def test_another_network_shows_what_the_file_holds(tmp_path):
    file = save(tmp_path / 'a.pth', random_weights(CONVNEXT))
    message = refusal(RESNET, file)
    assert 'holds no tensor of ResNet' in message
    assert 'downsample_layers' in message


def test_values_that_are_not_finite_are_an_error(tmp_path):
    state = random_weights(RESNET)
    state['layer1.0.conv1.weight'][0, 0, 0, 0] = float('nan')
    message = refusal(RESNET, save(tmp_path / 'a.pth', state))
    assert 'layer1.0.conv1.weight' in message and 'NaN' in message


def test_a_file_without_tensors_is_an_error(tmp_path):
    file = tmp_path / 'a.pth'
    torch.save([1, 2], file)
    assert 'holds no state_dict' in refusal(RESNET, str(file))
