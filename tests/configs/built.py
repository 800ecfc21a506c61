# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What mmengine builds from a config: model, groups, learning rates."""
import functools

import torch
from mmengine.model import BaseModel
from mmengine.optim import build_optim_wrapper
from mmengine.registry import MODELS, DefaultScope
from mmengine.runner import Runner
from torch import nn

from .shipped import load

ITERATIONS = 4  # per epoch


@functools.cache
def build(name):
    """Build the model of a config on the meta device."""
    cfg = load(name)
    if 'data_preprocessor' in cfg:  # as the runner does
        cfg.model.setdefault('data_preprocessor', cfg.data_preprocessor)
    with DefaultScope.overwrite_default_scope(cfg.default_scope), \
            torch.device('meta'):
        return MODELS.build(cfg.model)


def normalized(name, rgb):
    """Return an RGB color, loaded as BGR, after the data preprocessor."""
    cfg = load(name)
    settings = {key: value for key, value in (
        cfg.get('data_preprocessor') or cfg.model.data_preprocessor).items()
                if key not in ('type', '_scope_')}
    normalize = type(build(name).data_preprocessor)(**settings)
    image = torch.tensor(rgb[::-1])[None, :, None, None].expand(1, 3, 32, 32)
    batch = dict(QBHeat=image, MoCo=[image, image]).get(
        cfg.model.type, list(image))
    result = normalize(dict(inputs=batch, data_samples=None))['inputs']
    result = result[0] if isinstance(result, list) else result
    return result[0, :, 16, 16].tolist()


@functools.cache
def wrapper_of(name):
    """Build the optimizer of a config, without AMP."""
    wrapper = dict(load(name).optim_wrapper, type='OptimWrapper')
    wrapper.pop('loss_scale', None)
    with DefaultScope.overwrite_default_scope(load(name).default_scope):
        return build_optim_wrapper(build(name), wrapper)


def groups_of(name):
    """Map trained parameters to their settings."""
    names = {id(p): name for name, p in build(name).named_parameters()}
    return {names[id(p)]: group for group in wrapper_of(name).param_groups
            for p in group['params'] if p.requires_grad}


class Toy(BaseModel):

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, inputs, mode):
        return dict(loss=self.weight)


def learning_rates(cfg, work_dir, iterations=ITERATIONS):
    """Return the rate of each iteration, as mmengine's hook sets it."""
    runner = Runner(
        Toy(), str(work_dir), default_scope=cfg.default_scope,
        experiment_name=work_dir.name,
        train_dataloader=dict(
            batch_size=1, dataset=list(range(iterations)),
            sampler=dict(type='DefaultSampler', shuffle=False)),
        train_cfg=cfg.train_cfg, param_scheduler=cfg.param_scheduler,
        optim_wrapper=dict(
            optimizer=dict(type='SGD', lr=cfg.optim_wrapper.optimizer.lr)))
    runner._train_loop = runner.build_train_loop(cfg.train_cfg)
    runner.optim_wrapper = runner.build_optim_wrapper(runner.optim_wrapper)
    schedulers = runner.build_param_scheduler(cfg.param_scheduler)
    rates = []
    for iteration in range(cfg.train_cfg.max_epochs * iterations):
        rates.append(runner.optim_wrapper.get_lr()['lr'][0])
        runner.optim_wrapper.optimizer.step()
        epoch_ends = (iteration + 1) % iterations == 0
        for scheduler in schedulers:
            if not scheduler.by_epoch or epoch_ends:
                scheduler.step()
    return rates
