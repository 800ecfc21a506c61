# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A step of each kind of recipe in mixed precision."""
import pytest
import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch.nn.modules.batchnorm import _BatchNorm

from ..helpers.shipped import load, shrink

RECIPES = dict(
    pretraining='qbheat/qbheat_mf-285m_8xb128-amp-coslr-100e_in1k.py',
    fine_tuning='qbheat/benchmarks/mf-285m_8xb64-ft-tran1-coslr-200e_in1k.py',
    mf_dec='qbheat/coco/mf-dec-211_mf-285m_ft_8xb2-200e_coco.py')

needs_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(), reason='float16 needs a GPU')
PRECISIONS = ['bfloat16', pytest.param('float16', marks=needs_gpu)]


class LossHook(Hook):
    """Keeps the first loss, and stops after the first actual step."""
    loss = None

    def after_train_iter(self, runner, batch_idx, data_batch=None,
                         outputs=None):
        if self.loss is None:
            self.loss = outputs['loss'].detach().cpu()
        # The scaler skips steps until its scale fits float16.
        if runner.optim_wrapper.optimizer.state:
            runner.train_loop.stop_training = True


def train(name, data, work_dir, **wrapper):
    """Take a step of a recipe; return the runner and the loss."""
    cfg = load(RECIPES[name])
    assert name != 'pretraining' or (
        cfg.optim_wrapper.type == 'AmpOptimWrapper')
    cfg = shrink(cfg, data[cfg.default_scope], work_dir)
    cfg.optim_wrapper.update(wrapper)
    cfg.randomness = dict(seed=0)
    cfg.train_cfg.max_epochs = 30
    cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
    cfg.default_hooks.checkpoint.update(interval=-1, save_best=None)
    runner, hook = Runner.from_cfg(cfg), LossHook()
    runner.register_hook(hook, 'LOWEST')
    runner.train()
    return runner, hook.loss


@pytest.mark.parametrize('name', RECIPES)
@pytest.mark.parametrize('dtype', PRECISIONS)
def test_step_in_mixed_precision(name, dtype, data, tmp_path,
                                 amp_without_gpu):
    _, exact = train(name, data, tmp_path / 'exact')
    runner, loss = train(name, data, tmp_path / 'amp', dtype=dtype,
                         type='AmpOptimWrapper', loss_scale='dynamic')

    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, exact, rtol=0.03, atol=0)
    states = runner.optim_wrapper.optimizer.state
    for key, parameter in runner.model.named_parameters():
        assert parameter.dtype == torch.float32
        assert parameter.isfinite().all(), key
        assert bool(states.get(parameter)) == parameter.requires_grad, key
        for value in states.get(parameter, {}).values():
            assert torch.as_tensor(value).isfinite().all(), key
    norms = [m for m in runner.model.modules() if isinstance(m, _BatchNorm)]
    assert norms
    for norm in norms:
        for statistics in (norm.running_mean, norm.running_var):
            assert statistics.dtype == torch.float32
            assert statistics.isfinite().all()
