# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A recipe for many images and GPUs trains on few and none."""
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
from qbheat_mm.engine import AnalysisHook, AutoScaleRunner
from qbheat_mm.engine.runner.gpu_decoding import fit_decoding
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
    assert runner.train_dataloader.batch_size == images
    assert rates[0] == pytest.approx(images / 1000)
    log = log_of(runner)
    for line in ('training goes on in float32',
                 f'the {images} images of the training set make no batch of '
                 f'256 for 1 process(es): train_dataloader.batch_size={images}'
                 f'; the learning rate of 0.256 becomes {images / 1000:g}',
                 f'longer than the run of {max_epochs} steps'):
        assert log.count(line) == 1, line
    assert runner.optim_wrapper.__class__.__name__ == 'OptimWrapper'


@needs_no_gpu
def test_without_schedulers_steps_are_taken(config):
    cfg = config(5)
    cfg.param_scheduler = None
    runner = RUNNERS.build(cfg)
    before = copy.deepcopy(runner.model.state_dict())
    runner.train()
    assert runner.iter == 2
    assert not torch.equal(before['backbone.tokens'],
                           runner.model.state_dict()['backbone.tokens'])


@needs_no_gpu
def test_a_batch_that_is_filled_is_left_alone(config):
    cfg = config(5, **{'train_dataloader.batch_size': 4,
                       'train_cfg.max_epochs': 30})
    runner, rates = train(cfg)
    assert runner.iter == 30
    assert runner.train_dataloader.batch_size == 4
    assert max(rates) == pytest.approx(0.256)
    assert 'becomes' not in log_of(runner)
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
    assert 'a step takes 2 batches' in log_of(runner)


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


@pytest.mark.parametrize('images', [0, 1])
def test_too_few_images_are_told_in_one_line(config, images):
    cfg = config(images)
    if images:
        with pytest.raises(UserError, match='1 image, and training needs at '
                           'least 2: add images'):
            RUNNERS.build(cfg).train()
    else:
        with pytest.raises(Exception, match='0 (files|images)'):
            RUNNERS.build(cfg).train()


@pytest.mark.parametrize('images,processes,batch', [
    (20, 1, 20), (20, 3, 7), (255, 1, 255), (256, 1, 256), (1000, 3, 256),
    (3, 2, 2), (4, 2, 2)])
def test_the_batch_of_each_process(images, processes, batch):
    from qbheat_mm.engine.runner.loaders import fitting_batch
    assert fitting_batch(loader(images, processes), 256, processes,
                         least=2) == batch


def loader(images, processes):
    dataset = list(range(images))
    sampler = list(range(math.ceil(images / processes)))
    return torch.utils.data.DataLoader(dataset, 256, sampler=sampler,
                                       drop_last=True)


def test_more_processes_than_images():
    from qbheat_mm.engine.runner.loaders import fitting_batch
    with pytest.raises(UserError, match='5 images for 8 processes, and each '
                       'needs at least 2: start at most 2'):
        fitting_batch(loader(5, 8), 256, 8, least=2)
    assert fitting_batch(loader(5, 8), 256, 8) == 1


def test_a_queue_is_filled_by_whole_batches():
    from qbheat_mm.engine.runner.loaders import fitting_batch
    assert fitting_batch(loader(20, 1), 32, 1, 2, divides=65536) == 16


@pytest.mark.parametrize('queue, batch, processes, fitting', [
    (65536, 32, 5, 65600), (65536, 48, 1, 65520), (12, 5, 2, 10),
    (4, 32, 8, 256), (65536, 32, 8, None), (0, 32, 5, None)])
def test_a_queue_of_no_whole_steps(queue, batch, processes, fitting):
    """mmpretrain asserts it in the first step, without a word."""
    from qbheat_mm.engine.runner.auto_scale_runner import _require_whole_steps
    if fitting is None:
        return _require_whole_steps(queue, batch, processes)
    with pytest.raises(UserError, match=f'queue_len={queue} is no multiple '
                       f'.*set --cfg-options model.queue_len={fitting}$'):
        _require_whole_steps(queue, batch, processes)


def test_a_queue_is_looked_at_before_training(config):
    runner = RUNNERS.build(config(4, **{'train_dataloader.batch_size': 4}))
    runner.model.queue_len = 6
    with pytest.raises(UserError, match='model.queue_len=6 is no multiple'):
        runner.train()


@needs_no_gpu
@pytest.mark.parametrize('queue, told', [(4, 1), (2, 0)])
def test_a_queue_that_holds_all_images_is_told(config, queue, told):
    runner = RUNNERS.build(config(4))
    runner.model.queue_len = queue
    runner.train()
    assert log_of(runner).count(
        f'queue_len={queue} is no less than the 4 images') == told


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


DECODING = 'qbheat_mm.engine.runner.gpu_decoding'


@needs_no_gpu
def test_without_a_gpu_the_cpu_decodes_and_says_so(config):
    runner, _ = train(ours(config(4, gpu_decode=True)))
    assert log_of(runner).count(
        'gpu_decode: the CPU decodes, for there is no GPU') == 1
    assert 'Decoding' not in type(
        runner.model.data_preprocessor).__name__


def ours(cfg):
    """A configuration with the pipeline of the recipes."""
    load, crop, pack = cfg.train_dataloader.dataset.pipeline
    for step, name in ((load, 'LoadImageFromFile'),
                       (crop, 'RandomResizedCrop')):
        step.update(type=name, _scope_='qbheat_mm')
    return cfg


def train_and_watch(cfg):
    """Train; give the runner and the images of the first step."""
    runner, seen = RUNNERS.build(cfg), []
    runner.model.data_preprocessor.register_forward_hook(
        lambda module, inputs, out: seen.append(out['inputs'].clone()))
    runner.train()
    return runner, seen[0]


def test_where_the_device_decodes_the_same_is_learned(config, tmp_path,
                                                      monkeypatch):
    """JPEG files by the preprocessor; on a machine without a GPU, there."""
    cfg = ours(config(4))
    for file in (tmp_path / 'images').glob('*.png'):
        soft = mmcv.imread(str(file)) // 4 + 96
        file.unlink()
        mmcv.imwrite(soft, str(file.with_suffix('.jpg')))
    cfg.optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.01))
    _, expected = train_and_watch(cfg)
    monkeypatch.setattr(f'{DECODING}.get_device', lambda: 'cuda')
    monkeypatch.setattr(f'{DECODING}.why_not_on', lambda device: None)
    cfg.gpu_decode = True
    cfg.experiment_name = 'decoding'
    cfg.work_dir = str(tmp_path / 'decoding')
    found, images = train_and_watch(cfg)
    assert 'gpu_decode: JPEG files are decoded on cuda' in log_of(found)
    assert type(found.model.data_preprocessor).__name__ == (
        'DecodingDataPreprocessor')
    assert cfg.train_dataloader.collate_fn.type == 'default_collate'
    # what a run has written begins the next, with a GPU or without
    written = Config.fromfile(next((tmp_path / 'decoding').glob('*.py')))
    assert 'decoded on cuda' in fit_decoding(copy.deepcopy(written))
    monkeypatch.setattr(f'{DECODING}.get_device', lambda: 'cpu')
    written.update(experiment_name='again', work_dir=str(tmp_path / 'again'))
    again, images_again = train_and_watch(written)
    assert 'decoded on the CPU, by the training process' in log_of(again)
    # who looks at pictures in training sees those, and not their files
    hook = AnalysisHook(num_images=2, num_embeddings=3)
    batch = next(iter(again.train_dataloader))
    hook.before_train_iter(again, 0, batch)
    assert hook.inputs.shape == (2, 3, *images.shape[2:])
    assert hook.inputs.dtype == torch.uint8 and len(hook.embedded) == 3
    # two grey levels; the crops are those of the same random numbers
    torch.testing.assert_close(images, expected, rtol=0, atol=2.1 / 64)
    assert images.std() > 0.1
    assert torch.equal(images_again, images)
