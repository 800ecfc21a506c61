# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Recipes adapt to few images, short runs and machines without a GPU."""
import copy
import math
from pathlib import Path

import mmcv
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import RUNNERS
from mmengine.runner import Runner

import qbheat_mm  # noqa: F401
from qbheat_mm.engine import AutoScaleRunner
from qbheat_mm.engine.auto_scale_runner import fitting_batch
from qbheat_mm.errors import UserError

CONFIG = dict(
    default_scope='mmpretrain',
    runner_type='AutoScaleRunner',
    train_dataloader=dict(
        batch_size=256,
        num_workers=0,
        drop_last=True,
        sampler=dict(type='DefaultSampler', shuffle=True),
        collate_fn=dict(type='default_collate'),
        dataset=dict(
            type='CustomDataset',
            with_label=False,
            pipeline=[
                dict(type='LoadNamedImageFromFile'),
                dict(type='RandomResizedCrop', scale=64),
                dict(type='PackInputs')
            ])),
    model=dict(
        type='QBHeat',
        data_preprocessor=dict(
            type='SelfSupDataPreprocessor', mean=[127.5] * 3, std=[64.] * 3),
        backbone=dict(
            type='MobileFormer',
            arch=dict(stem=4, tokens=(2, 8), conv=16,
                      stages=[[('lite', 8, 4)], [('lite-down', 8, 8)],
                              [('mf-down', 16, 8)],
                              [('mf-down', 16, 8), ('mf', 16, 8)]])),
        predictor=dict(type='QBHeatPredictor', in_channels=16, embed_dims=8),
        neck=dict(type='QBHeatDecoder', embed_dims=8, depth=1, num_heads=2,
                  patch_size=16),
        head=dict(type='QBHeatPretrainHead', norm_pix=True, patch_size=16),
        position='mixed',
        num_models=8),
    optim_wrapper=dict(
        type='AmpOptimWrapper',
        loss_scale='dynamic',
        optimizer=dict(type='AdamW', lr=0.256)),
    param_scheduler=[
        dict(type='LinearLR', start_factor=1e-4, by_epoch=True, begin=0,
             end=10, convert_to_iter_based=True),
        dict(type='CosineAnnealingLR', by_epoch=True, begin=10,
             convert_to_iter_based=True)
    ],
    train_cfg=dict(type='EpochBasedTrainLoop', max_epochs=2),
    auto_scale_lr=dict(base_batch_size=256),
    default_hooks=dict(logger=dict(type='LoggerHook', interval=1)),
    randomness=dict(seed=0))


@pytest.fixture(autouse=True)
def quiet_runner(monkeypatch):
    """Runners that do not ask the machine for its compilers."""
    monkeypatch.setattr(Runner, '_log_env', lambda self, env_cfg: None)


@pytest.fixture
def config(tmp_path):
    """Write some images; give the configuration that trains on them."""

    def write(images, **changes):
        random = np.random.default_rng(0)
        root = tmp_path / 'images'
        root.mkdir()
        for i in range(images):
            image = random.integers(0, 255, (32, 32, 3), dtype=np.uint8)
            mmcv.imwrite(image, str(root / f'{i}.png'))
        cfg = Config(copy.deepcopy(CONFIG))
        cfg.train_dataloader.dataset.data_root = str(root)
        cfg.work_dir = str(tmp_path / 'work')
        cfg.merge_from_dict(changes)
        return cfg

    return write


def train(cfg):
    """Train; give the runner and the learning rate of every step."""
    runner = RUNNERS.build(cfg)
    runner.train()
    rates, _ = runner.message_hub.get_scalar('train/lr').data
    return runner, list(rates)


def log_of(runner):
    return next(Path(runner.work_dir).glob('*/*.log')).read_text()


needs_no_gpu = pytest.mark.skipif(
    torch.cuda.is_available(), reason='needs no GPU')


@needs_no_gpu
@pytest.mark.parametrize('images,max_epochs', [(2, 1), (3, 2), (20, 2)])
def test_few_images_for_few_epochs_without_a_gpu(config, images, max_epochs):
    cfg = config(images, **{'train_cfg.max_epochs': max_epochs})
    runner, rates = train(cfg)
    assert runner.iter == max_epochs  # a step takes all images
    assert runner.train_dataloader.batch_sampler.batch_size == images
    assert rates[0] == pytest.approx(images / 1000)
    log = log_of(runner)
    for line in ('training in float32',
                 f'{images} training images for 1 process(es): '
                 f'train_dataloader.batch_size={images}, learning rate '
                 f'0.256 -> {images / 1000:g}',
                 f'schedule shortened to the {max_epochs} steps'):
        assert log.count(line) == 1, line
    assert runner.optim_wrapper.__class__.__name__ == 'OptimWrapper'


@needs_no_gpu
def test_a_batch_that_is_filled_is_left_alone(config):
    cfg = config(5, **{'train_dataloader.batch_size': 4,
                       'train_cfg.max_epochs': 30})
    runner, rates = train(cfg)
    assert runner.iter == 30
    assert runner.train_dataloader.batch_sampler.batch_size == 4
    assert max(rates) == pytest.approx(0.256)
    assert 'learning rate' not in log_of(runner)
    assert 'shortened' not in log_of(runner)


@needs_no_gpu
def test_no_workers_is_one_setting(config):
    cfg = config(4, **{'train_dataloader.persistent_workers': True,
                       'train_dataloader.prefetch_factor': 2})
    runner, _ = train(cfg)
    assert runner.iter == 2


@needs_no_gpu
def test_the_learning_rate_is_scaled_once(config):
    cfg = config(8, **{'auto_scale_lr.enable': True,
                       'auto_scale_lr.base_batch_size': 16,
                       'param_scheduler': []})
    runner, rates = train(cfg)
    assert rates == pytest.approx([0.128] * 2)


@needs_no_gpu
def test_accumulated_batches_count_for_the_learning_rate(config):
    cfg = config(8, **{'auto_scale_lr.enable': True,
                       'auto_scale_lr.base_batch_size': 16,
                       'optim_wrapper.accumulative_counts': 2,
                       'param_scheduler': []})
    runner, rates = train(cfg)
    assert rates == pytest.approx([0.256] * 2)
    assert 'a step has 2 batches' in log_of(runner)


@needs_no_gpu
def test_iterations_instead_of_epochs(config):
    cfg = config(5, train_cfg=dict(
        _delete_=True, type='IterBasedTrainLoop', max_iters=8))
    cfg.param_scheduler = [dict(type='LinearLR', start_factor=.1,
                                by_epoch=False, begin=0, end=500)]
    runner, rates = train(cfg)
    assert runner.iter == 8
    assert max(rates) == pytest.approx(0.005)


@needs_no_gpu
@pytest.mark.parametrize('schedule', [
    dict(type='MultiStepLR', milestones=[2, 3]),
    dict(type='CosineAnnealingLR', convert_to_iter_based=True),
    dict(type='LinearLR', by_epoch=True, end=5)])
def test_iterations_know_no_epochs(config, schedule):
    """The rate would never change, or stop in the midst of its way."""
    cfg = config(5, train_cfg=dict(
        _delete_=True, type='IterBasedTrainLoop', max_iters=8))
    cfg.param_scheduler = [dict(type='ConstantLR', by_epoch=False, end=1),
                           schedule]
    with pytest.raises(UserError, match='param_scheduler.1 .* counts epochs'):
        train(cfg)


@needs_no_gpu
def test_iterations_know_the_steps_of_epochs_that_end(config):
    cfg = config(8, train_cfg=dict(
        _delete_=True, type='IterBasedTrainLoop', max_iters=6))
    cfg.param_scheduler = [dict(type='LinearLR', start_factor=.5, end=2,
                                convert_to_iter_based=True)]
    runner, rates = train(cfg)
    assert rates[0] < rates[-1] == max(rates)


def test_one_image_is_too_few(config):
    with pytest.raises(UserError, match='has 1 images.* needs at least 2'):
        RUNNERS.build(config(1)).train()


def loader(images, processes, batched=False):
    sampler = range(math.ceil(images / processes))
    if batched:  # as mmdet's sampler by aspect ratio
        return torch.utils.data.DataLoader(
            range(images), batch_sampler=torch.utils.data.BatchSampler(
                sampler, 256, drop_last=False))
    return torch.utils.data.DataLoader(range(images), 256, sampler=sampler,
                                       drop_last=True)


@pytest.mark.parametrize('batched', [False, True])
@pytest.mark.parametrize('images, processes, batch', [
    (20, 1, 20), (20, 3, 7), (256, 1, 256), (1000, 3, 256), (3, 2, 2)])
def test_the_batch_of_each_process(images, processes, batch, batched):
    assert fitting_batch(loader(images, processes, batched), 256, processes,
                         least=2) == batch


def test_more_processes_than_images():
    with pytest.raises(UserError, match='5 images for 8 process'):
        fitting_batch(loader(5, 8), 256, 8, least=2)
    assert fitting_batch(loader(5, 8), 256, 8) == 1


def test_a_queue_is_filled_by_whole_steps(config):
    assert fitting_batch(loader(20, 1), 32, 1, 2, queue=65536) == 16
    runner = RUNNERS.build(config(4, **{'train_dataloader.batch_size': 4}))
    runner.model.queue_len = 6
    with pytest.raises(UserError, match='queue_len=6 is not .*queue_len=8'):
        runner.train()


@needs_no_gpu
@pytest.mark.parametrize('queue, told', [(4, 1), (2, 0)])
def test_a_queue_that_holds_all_images_is_told(config, queue, told):
    runner = RUNNERS.build(config(4))
    runner.model.queue_len = queue
    runner.train()
    assert log_of(runner).count('among its own negatives') == told


def test_mmengines_own_runner_can_be_had(config):
    cfg = config(2, runner_type='Runner')
    assert type(RUNNERS.build(cfg)) is Runner
    cfg.runner_type = 'AutoScaleRunner'
    assert type(RUNNERS.build(cfg)) is AutoScaleRunner


@pytest.mark.parametrize('max_epochs', [0, -1])
def test_a_run_without_steps_is_refused(config, max_epochs):
    cfg = config(4, **{'train_cfg.max_epochs': max_epochs})
    with pytest.raises(UserError, match=f'max_epochs={max_epochs}'):
        RUNNERS.build(cfg).train()


def test_a_compiled_model_learns_the_same(config, tmp_path):
    cfg = config(8, **{'train_dataloader.batch_size': 4,
                       'optim_wrapper.optimizer.lr': 1e-3})
    plain, _ = train(copy.deepcopy(cfg))
    assert 'is compiled' not in log_of(plain)
    # else a run that starts in the same second writes into the same log
    cfg.experiment_name = 'compiled'
    cfg.work_dir = str(tmp_path / 'compiled')
    cfg.compile = dict(backend='eager')
    compiled, _ = train(cfg)
    assert compiled.model._compiled_call_impl is not None
    assert 'is compiled' in log_of(compiled)
    for name, tensor in plain.model.state_dict().items():
        torch.testing.assert_close(compiled.model.state_dict()[name], tensor)
