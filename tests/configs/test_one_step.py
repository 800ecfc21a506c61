# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Shipped configs take a step, and pass their weights on to the next task."""
import importlib
import re
import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from mmengine.runner import Runner

from qbheat_mm.errors import UserError
from qbheat_mm.trained.safe_load import safe_load

from ..helpers.shipped import NAMES, load
from .steps import encoder_of, small, take_a_step

# Ablations, other sizes and other schedules repeat parts that these steps run;
# test_recipes_*.py compares their values.
REPEATED = re.compile(
    r'ablation|mf-1\.0g|qbheat_mf.*-(200|400|800|1600|2400)e_in1k'
    r'|(coco|mocov2|mobile_former)/.*mf-3\.7g|mf-3\.7g.*-tran1-'
    r'|mf-dec.*mf-285m_frozen.*-50e|mf-dec-522.*_ft_'
    r'|mf-dec.*(mf-294m_e2e|mf-508m_frozen)'
    r'|mobile_former/mf-(52|96|151|214|294)m')


@pytest.fixture
def panopticapi(monkeypatch):
    """Stubs for the parts of panopticapi that training needs."""
    package, utils = ModuleType('panopticapi'), ModuleType('panopticapi.utils')
    utils.rgb2id = lambda image: image.astype(np.int32) @ (1, 256, 65536)
    monkeypatch.setitem(sys.modules, 'panopticapi', package)
    monkeypatch.setitem(sys.modules, 'panopticapi.utils', utils)
    metric = importlib.import_module(
        'mmdet.evaluation.metrics.coco_panoptic_metric')
    monkeypatch.setattr(metric, 'panopticapi', package)


@pytest.mark.parametrize(
    'name', [name for name in NAMES if not REPEATED.search(name)])
def test_one_step(name, data, tmp_path, panopticapi):
    runner = take_a_step(small(name, data, tmp_path))
    # A trained parameter without a gradient, and so without optimizer state,
    # would stop a distributed run.
    for key, parameter in runner.model.named_parameters():
        state = runner.optim_wrapper.optimizer.state.get(parameter)
        assert bool(state) == parameter.requires_grad, key
        assert torch.isfinite(parameter).all(), key
    assert runner.param_schedulers
    if runner.val_loop is not None:
        batch = next(iter(runner.val_dataloader))
        assert len(batch['inputs']) == 2


PRETRAINED = ['qbheat/qbheat_mf-285m_8xb128-amp-coslr-100e_in1k.py',
              'mocov2/mocov2_mf-285m_8xb32-coslr-200e_in1k.py',
              'mobile_former/mf-285m_8xb128-tran1-coslr-450e_in1k.py']
LINEAR = 'qbheat/benchmarks/mf-285m_8xb512-linear-coslr-90e_in1k.py'
TRAN1 = 'qbheat/benchmarks/mf-285m_8xb512-tran1-coslr-200e_in1k.py'
TUNED1 = 'qbheat/benchmarks/mf-285m_8xb64-ft-tran1-coslr-200e_in1k.py'


DETECTOR = 'qbheat/coco/mf-dec-211_mf-285m_frozen_8xb2-500e_coco.py'


def checkpoint_of(name, data, folder, encoder=None):
    """Return the checkpoint that a run writes after one step."""
    cfg = small(name, data, folder)
    if encoder:
        cfg.model.backbone.init_cfg = dict(
            type='PretrainedEncoder', checkpoint=encoder)
    take_a_step(cfg).save_checkpoint(str(folder), 'step.pth')
    return str(folder / 'step.pth')


@pytest.fixture(scope='session')
def pretrained(data, tmp_path_factory):
    """A checkpoint of each pre-training."""
    return {name: checkpoint_of(name, data, tmp_path_factory.mktemp('pre'))
            for name in PRETRAINED}


@pytest.mark.parametrize('target, origin', [
    *((LINEAR, origin) for origin in PRETRAINED), (DETECTOR, PRETRAINED[0])])
def test_an_encoder_serves_every_task(target, origin, pretrained, data,
                                      tmp_path):
    file = pretrained[origin]
    saved = safe_load(file)['state_dict']
    cfg = small(target, data, tmp_path)
    cfg.model.backbone.init_cfg = dict(load(target).model.backbone.init_cfg,
                                       checkpoint=file)
    encoder = encoder_of(take_a_step(cfg).model)
    for name, tensor in encoder.items():
        assert torch.equal(tensor, saved[f'backbone.{name}']), name
    if 'mocov2' in origin:  # not the momentum encoder, which differs
        copy = saved['encoder_k.module.0.stem.1.running_mean']
        assert not torch.equal(encoder['stem.1.running_mean'], copy)


def test_fine_tuning_continues_from_the_probe(pretrained, data, tmp_path):
    probe = checkpoint_of(TRAN1, data, tmp_path / 'probe',
                          pretrained[PRETRAINED[0]])
    cfg = small(TUNED1, data, tmp_path / 'tuned')
    cfg.default_hooks = load(TUNED1).default_hooks
    with pytest.raises(UserError, match='load_from=FILE'):
        Runner.from_cfg(cfg).train()
    cfg.load_from = probe
    cfg.optim_wrapper.optimizer.lr = 0.
    model = take_a_step(cfg).model
    saved = safe_load(probe)['state_dict']
    for name, parameter in model.named_parameters():
        assert parameter.requires_grad
        assert torch.equal(parameter, saved[name]), name
