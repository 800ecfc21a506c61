# Copyright (c) QB-Heat MM authors. All rights reserved.
"""An encoder is loaded completely, or the run fails."""
import copy

import pytest
import torch
from mmengine.model import BaseModule, Sequential
from mmengine.registry import init_default_scope
from mmpretrain.registry import MODELS
from torch import nn

import qbheat_mm  # noqa: F401
from qbheat_mm.errors import UserError

RESNET = dict(type='mmpretrain.ResNet', depth=18, base_channels=4,
              stem_channels=4)
CONVNEXT = dict(type='mmpretrain.ConvNeXt',
                arch=dict(depths=[1, 1, 1, 1], channels=[4, 8, 8, 8]))
HEAD = dict(type='mmpretrain.LinearClsHead', num_classes=2, in_channels=32)


@pytest.fixture(autouse=True)
def mmpretrain_scope():
    init_default_scope('mmpretrain')


def random_weights(backbone):
    """A state dict whose tensors all differ from initial values."""
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
                                        ('model.encoder.', 'state_dict'),
                                        ('encoder.', 'model'), ('', None)])
def test_init_weights_keeps_the_weights_of_the_file(tmp_path, backbone,
                                                     prefix, key):
    state = random_weights(backbone)
    file = save(tmp_path / 'a.pth', state, prefix, key)
    model = classifier(backbone, file)
    model.init_weights()
    for name, tensor in model.backbone.state_dict().items():
        assert torch.equal(tensor, state[name]), name
    # The head is initialized as usual, with std 0.01.
    assert 0 < model.head.fc.weight.std() < 0.03


def test_children_with_an_init_cfg_keep_the_weights(tmp_path):

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


def refusal(backbone, checkpoint):
    model = classifier(backbone, checkpoint)
    with pytest.raises(UserError) as error:
        model.init_weights()
    assert '\n' not in str(error.value)
    return str(error.value)


def test_no_checkpoint_is_an_error():
    message = refusal(RESNET, None)
    assert 'encoder=FILE' in message
    assert 'model.backbone.init_cfg=None' in message


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
