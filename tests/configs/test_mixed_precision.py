# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A step of every kind of recipe in mixed precision, by mmengine's wrapper."""
import pytest
import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch.nn.modules.batchnorm import _BatchNorm

from .shipped import load, shrink, write_coco, write_imagenet

RECIPES = dict(
    pretraining='qbheat/qbheat_mf-285m_8xb128-amp-coslr-100e_in1k.py',
    linear='qbheat/benchmarks/mf-285m_8xb512-linear-coslr-90e_in1k.py',
    tran1='qbheat/benchmarks/mf-285m_8xb512-tran1-coslr-200e_in1k.py',
    fine_tuning='qbheat/benchmarks/mf-285m_8xb64-ft-tran1-coslr-200e_in1k.py',
    mf_dec='qbheat/coco/mf-dec-211_mf-285m_frozen_8xb2-500e_coco.py',
    mf_dec_tuned='qbheat/coco/mf-dec-211_mf-285m_ft_8xb2-200e_coco.py',
    retinanet='qbheat/coco/retinanet_mf-285m_fpn_frozen_8xb2-1x_coco.py')

needs_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(), reason='float16 is of GPUs')
PRECISIONS = ['bfloat16', pytest.param('float16', marks=needs_gpu)]


@pytest.fixture(scope='session')
def data(tmp_path_factory):
    """Folders of a tiny ImageNet and a tiny COCO."""
    from mmdet.datasets import CocoDataset
    imagenet, coco = map(tmp_path_factory.mktemp, ('imagenet', 'coco'))
    write_imagenet(imagenet)
    write_coco(coco, CocoDataset.METAINFO['classes'])
    return dict(mmpretrain=imagenet, mmdet=coco)


class LossHook(Hook):
    """Remembers the first loss, and stops when a step has been taken."""
    loss = None

    def after_train_iter(self, runner, batch_idx, data_batch=None,
                         outputs=None):
        if self.loss is None:
            self.loss = outputs['loss'].detach().cpu()
        # A dynamic scale begins too large for float16: a few steps are
        # skipped until it fits.
        if runner.optim_wrapper.optimizer.state:
            runner.train_loop.stop_training = True


def train(name, data, work_dir, **wrapper):
    """The runner after a step of a recipe, and the loss of the step."""
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
        # Made of the gradient, by a step that the scaler let through.
        assert bool(states.get(parameter)) == parameter.requires_grad, key
        for value in states.get(parameter, {}).values():
            assert torch.as_tensor(value).isfinite().all(), key
    norms = [m for m in runner.model.modules() if isinstance(m, _BatchNorm)]
    assert norms
    for norm in norms:
        for statistics in (norm.running_mean, norm.running_var):
            assert statistics.dtype == torch.float32
            assert statistics.isfinite().all()


@pytest.mark.parametrize('dtype', PRECISIONS)
def test_pixels_are_compared_in_full_precision(dtype, data, tmp_path,
                                               amp_without_gpu):
    """The target is normalized, and the error taken, in float32."""
    from qbheat_mm.models.heads import QBHeatPretrainHead
    seen = []

    class Head(QBHeatPretrainHead):

        def loss(self, pred, images, mask):
            loss = super().loss(pred, images, mask)
            with torch.autocast(pred.device.type, enabled=False):
                full = super().loss(pred.float(), images.float(), mask)
            seen.append((pred.dtype, self.target(images).dtype, loss, full))
            return loss

    cfg = load(RECIPES['pretraining'])
    cfg = shrink(cfg, data['mmpretrain'], tmp_path)
    cfg.optim_wrapper.update(type='AmpOptimWrapper', dtype=dtype)
    cfg.train_cfg.max_epochs = 1
    cfg.param_scheduler = []
    cfg.default_hooks.checkpoint.interval = -1
    runner = Runner.from_cfg(cfg)
    runner.model.head.__class__ = Head
    runner.train()
    assert seen
    for pred, target, loss, full in seen:
        assert pred == getattr(torch, dtype)
        assert target == loss.dtype == torch.float32
        torch.testing.assert_close(loss, full)
