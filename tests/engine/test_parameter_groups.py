# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Parameters of equal settings share a group, and nothing else changes."""
import pytest
import torch
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DefaultScope
from torch import nn

import qbheat_mm  # noqa: F401

LAYER_DECAY = 'LearningRateDecayOptimWrapperConstructor'


class Block(nn.Module):

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.conv = nn.Conv1d(2, 3, 1)
        self.norm = nn.GroupNorm(1, 3)
        self.tokens = nn.Parameter(torch.ones(3, 1))

    def forward(self, x):
        x = self.norm(self.conv(x)) * self.scale[:, None] + self.tokens
        return x[:, :2].sigmoid()


class Model(nn.Sequential):

    def __init__(self):
        torch.manual_seed(0)
        super().__init__(Block(), Block(), Block())
        self[1].conv.requires_grad_(False)

    def get_layer_depth(self, name):
        return int(name[0]), 3


def optimizer_of(model, constructor, **paramwise):
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        return build_optim_wrapper(model, dict(
            optimizer=dict(type='AdamW', lr=0.1, weight_decay=0.5),
            constructor=constructor, paramwise_cfg=paramwise))


def settings_of(model, wrapper):
    """The settings of each trained parameter."""
    names = {id(p): name for name, p in model.named_parameters()}
    found = {}
    for group in wrapper.optimizer.param_groups:
        settings = {key: value for key, value in group.items()
                    if key not in ('params', 'param_name')}
        for param in group['params']:
            found[names[id(param)]] = settings
    return found


@pytest.mark.parametrize('usual, paramwise, groups', [
    ('DefaultOptimWrapperConstructor', dict(
        norm_decay_mult=0., bias_decay_mult=0.,
        custom_keys=dict(tokens=dict(lr_mult=0.1, fix_lr=True))), 3),
    (LAYER_DECAY, dict(layer_decay_rate=0.5, norm_decay_mult=0.), 6),
    (LAYER_DECAY, dict(layer_decay_rate=1.), 3)])
def test_settings_and_steps_are_those_of_the_usual_constructor(
        usual, paramwise, groups):
    found = []
    for constructor in (usual, 'GroupedOptimWrapperConstructor'):
        model = Model()
        wrapper = optimizer_of(model, constructor, **paramwise)
        for _ in range(3):
            wrapper.update_params(model(torch.ones(1, 2, 2)).sum())
        found.append((settings_of(model, wrapper), model.state_dict()))
    (settings, before), (grouped, after) = found
    assert len(wrapper.optimizer.param_groups) == groups
    assert settings == grouped and '1.conv.weight' not in grouped
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_parameter_in_two_modules_is_still_refused():
    model = Model()
    model[2].norm.weight = model[0].norm.weight
    with pytest.raises(ValueError, match='more than one parameter group'):
        optimizer_of(model, 'GroupedOptimWrapperConstructor',
                     norm_decay_mult=0.)
