# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Recipes adapt to few images, short runs and machines without a GPU."""
import math
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from mmengine.config import Config
from mmengine.optim import OptimWrapper
from mmengine.registry import RUNNERS
from torch import nn
from torch.utils.data import BatchSampler

import qbheat_mm  # noqa: F401
from qbheat_mm.engine import auto_scale_runner, memory
from qbheat_mm.engine.batch_size import fitting_batch
from qbheat_mm.engine.random_state import SeededBatchSampler
from qbheat_mm.errors import UserError

from ..helpers.models import NARROW
from ..helpers.runs import build
from ..helpers.shipped import write_image

RECIPE = Path(__file__).parents[2] / (
    'configs/qbheat/qbheat_mf-285m_1xb64-amp-coslr-80e_own-images.py')
# A tiny network, and one rate that is easy to read.
CHANGES = {
    'model.predictor.in_channels': 16, 'model.predictor.embed_dims': 8,
    'model.neck.embed_dims': 8, 'model.neck.depth': 1,
    'model.neck.num_heads': 2, 'train_dataloader.num_workers': 0,
    'train_dataloader.persistent_workers': False,
    'train_dataloader.dataset.pipeline.0.scale': 64,
    'optim_wrapper.optimizer.lr': 0.064,
    'optim_wrapper.paramwise_cfg.custom_keys': {
        'former': {'lr_mult': 1.}, 'backbone.tokens': {'lr_mult': 1.}},
    'train_cfg.max_epochs': 2, 'default_hooks.logger.interval': 1}


@pytest.fixture
def config(tmp_path):
    """Write images, and return a config that trains on them."""

    def write(images, **changes):
        root = tmp_path / 'images'
        for i in range(images):
            write_image(root / f'{i}.png', 32, 32)
        cfg = Config.fromfile(RECIPE)
        cfg.merge_from_dict(CHANGES)
        cfg.model.backbone.arch = NARROW
        cfg.train_dataloader.dataset.data_root = str(root)
        cfg.work_dir = str(tmp_path / 'work')
        cfg.merge_from_dict(changes)
        return cfg

    return write


def train(cfg):
    """Train; return the runner and the learning rate of each step."""
    runner = RUNNERS.build(cfg)
    runner.train()
    rates, _ = runner.message_hub.get_scalar('train/lr').data
    return runner, list(rates)


def log_of(runner):
    return next(Path(runner.work_dir).glob('*/*.log')).read_text()


needs_no_gpu = pytest.mark.skipif(
    torch.cuda.is_available(), reason='needs no GPU')


@pytest.mark.skipif(not hasattr(os, 'sched_setaffinity'),
                    reason='the system has no affinity')
def test_no_more_workers_than_cores_of_the_process(config):
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        runner, _ = train(config(4, **{'train_dataloader.num_workers': 8}))
        runner.build_dataloader(runner.cfg.train_dataloader)
    finally:
        os.sched_setaffinity(0, cores)
    assert runner.train_dataloader.num_workers == 1
    assert log_of(runner).count('num_workers: 8 -> 1') == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason='needs a CPU only')
def test_freed_memory_is_kept_on_a_cpu(config, monkeypatch):
    calls = []
    runner = RUNNERS.build(config(4))
    monkeypatch.setattr(auto_scale_runner, 'keep_freed_memory',
                        lambda: calls.append(1))
    runner.train()
    assert len(calls) == 1


@pytest.mark.parametrize('megabytes, workers, warned', [
    (64, 1, 1), (200, 1, 1), (64, 0, 0), (8000, 1, 0)])
def test_workers_that_may_fill_the_shared_memory(
        config, monkeypatch, tmp_path, megabytes, workers, warned):
    """The run would wait: torch's fault."""
    monkeypatch.setattr(memory, 'FOLDER', str(tmp_path))
    monkeypatch.setattr('shutil.disk_usage', lambda folder: SimpleNamespace(
        total=megabytes * 2**20))
    runner = RUNNERS.build(config(4, **{
        'train_dataloader.num_workers': workers}))
    for _ in range(2):
        runner.build_dataloader(runner.cfg.train_dataloader)
    log = log_of(runner)
    assert log.count(f'has {megabytes} MB') == warned
    assert log.count('--shm-size=2g') == warned


@needs_no_gpu
@pytest.mark.parametrize('images,max_epochs', [(2, 1), (20, 2)])
def test_few_images_for_few_epochs_without_a_gpu(config, capsys, images,
                                                 max_epochs):
    cfg = config(images, **{'train_cfg.max_epochs': max_epochs})
    given = cfg.to_dict()
    runner, rates = train(cfg)
    assert cfg.to_dict() == given
    assert runner.iter == max_epochs  # one step per epoch
    assert runner.train_dataloader.batch_sampler.batch_size == images
    assert rates[0] == pytest.approx(images / 1000)
    log = log_of(runner)
    for line in ('training in float32',
                 f'{images} training images for 1 process(es): '
                 f'train_dataloader.batch_size: 64 -> {images}',
                 f'Scaling the original LR by {images / 64}',
                 f'schedule shortened to the {max_epochs} steps'):
        assert log.count(line) == 1, line
    assert type(runner.optim_wrapper) is OptimWrapper
    printed = capsys.readouterr().out
    assert len(printed.partition('Epoch(train)')[0].splitlines()) < 10
    for line in ('Hooks will be executed', 'paramwise_options',
                 'Distributed training is not used'):
        assert line in log and line not in printed


@needs_no_gpu
def test_a_recipe_that_fits_is_left_alone(config):
    cfg = config(5, **{'train_dataloader.batch_size': 4,
                       'train_dataloader.persistent_workers': True,
                       'train_dataloader.prefetch_factor': 2,
                       'train_cfg.max_epochs': 20})
    runner, rates = train(cfg)
    assert runner.iter == 20
    assert runner.train_dataloader.batch_sampler.batch_size == 4
    assert max(rates) == pytest.approx(0.064)
    assert 'original LR' not in log_of(runner)
    assert 'shortened' not in log_of(runner)


@needs_no_gpu
@pytest.mark.parametrize('accumulated', [1, 2])
def test_the_learning_rate_is_scaled_once(config, accumulated):
    cfg = config(8, **{'auto_scale_lr.enable': True,
                       'auto_scale_lr.base_batch_size': 16,
                       'optim_wrapper.accumulative_counts': accumulated,
                       'param_scheduler': []})
    _, rates = train(cfg)
    assert rates == pytest.approx([0.032 * accumulated] * 2)


@needs_no_gpu
def test_iterations_instead_of_epochs(config):
    cfg = config(5, train_cfg=dict(
        _delete_=True, type='IterBasedTrainLoop', max_iters=20))
    cfg.param_scheduler = [dict(type='LinearLR', start_factor=.1,
                                by_epoch=False, begin=0, end=500)]
    runner, rates = train(cfg)
    assert runner.iter == 20
    assert rates[0] == pytest.approx(0.0005)
    assert rates[2:] == pytest.approx([0.005] * 18)


@needs_no_gpu
def test_schedules_in_epochs_need_epochs(config):
    """mmengine would never change the learning rate."""
    cfg = config(5, train_cfg=dict(
        _delete_=True, type='IterBasedTrainLoop', max_iters=8))
    cfg.param_scheduler = [dict(type='ConstantLR', by_epoch=False, end=1),
                           dict(type='MultiStepLR', milestones=[2, 3])]
    with pytest.raises(UserError, match='param_scheduler counts epochs'):
        train(cfg)


def test_only_training_samples_are_seeded(tmp_path):
    """Even if a validation loader has the same settings."""
    runner = build(tmp_path)
    for part, kind in (('train', SeededBatchSampler), ('val', BatchSampler)):
        loader = getattr(runner, f'{part}_dataloader')
        assert type(loader.batch_sampler) is kind


def test_one_image_is_too_few(config):
    with pytest.raises(UserError, match='gets 1 images.* needs at least 2'):
        RUNNERS.build(config(1)).train()


@pytest.mark.parametrize('images, processes, batch', [
    (20, 1, 20), (20, 3, 7), (256, 1, 256), (1000, 3, 256), (3, 2, 2)])
def test_the_batch_of_each_process(images, processes, batch):
    sampler = range(math.ceil(images / processes))
    assert fitting_batch(sampler, 256, processes, minimum=2) == batch


def test_a_queue_is_filled_by_whole_steps(config):
    assert fitting_batch(range(20), 32, 1, 2, queue=65536) == 16
    runner = RUNNERS.build(config(4, **{'train_dataloader.batch_size': 4}))
    runner.model.queue_len = 6
    with pytest.raises(UserError, match='queue_len=6 is not a multiple of'):
        runner.train()


def test_the_model_is_compiled(config, monkeypatch):
    compiled = []
    monkeypatch.setattr(nn.Module, 'compile',
                        lambda *args, **kwargs: compiled.append(kwargs))
    monkeypatch.setattr(torch, 'compile',
                        lambda run, **kwargs: compiled.append(kwargs) or run)
    train(config(4, compile=dict(backend='eager')))
    assert compiled == [dict(backend='eager')]
