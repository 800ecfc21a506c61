# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The encoder that a run writes with each checkpoint."""
import logging
import uuid
from pathlib import Path

import pytest
import safetensors
import torch
from mmengine.config import Config
from mmengine.registry import DATASETS
from mmpretrain.structures import DataSample
from torch.utils.data import Dataset

from qbheat_mm.apis import load_encoder
from qbheat_mm.engine import AutoScaleRunner
from qbheat_mm.engine.checkpoint import read
from qbheat_mm.export import hook

from .conftest import MOBILE_FORMER, pretraining

RUNTIME = Path(__file__).parents[2] / 'configs/_base_/runtime_mmpretrain.py'


@DATASETS.register_module()
class NoiseForExport(Dataset):
    """Four images of 64 x 64 pixels."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return dict(inputs=torch.randint(
            0, 255, (3, 64, 64), generator=generator, dtype=torch.uint8),
            data_samples=DataSample())


@pytest.fixture
def logged(monkeypatch):
    """Levels and texts that the hook logs."""
    lines = []
    monkeypatch.setattr(
        hook, 'print_log',
        lambda text, logger, level=logging.INFO: lines.append((level, text)))
    return lines


def train(folder, backbone=MOBILE_FORMER, **settings):
    """Two epochs of pre-training with the shipped runtime."""
    cfg = Config.fromfile(RUNTIME)
    cfg.merge_from_dict(dict(
        model=pretraining(backbone, 32), work_dir=str(folder),
        train_dataloader=dict(
            dataset=dict(type='NoiseForExport'), batch_size=2, num_workers=0,
            collate_fn=dict(type='default_collate'),
            sampler=dict(type='DefaultSampler', shuffle=True)),
        optim_wrapper=dict(optimizer=dict(type='SGD', lr=0.01)),
        train_cfg=dict(by_epoch=True, max_epochs=2), log_level='ERROR',
        # mmengine names a run by the second.
        experiment_name=uuid.uuid4().hex, **settings))
    AutoScaleRunner.from_cfg(cfg).train()


def test_it_is_the_encoder_of_the_last_checkpoint(tmp_path, logged):
    train(tmp_path, custom_hooks=[dict(type='EMAHook', momentum=0.3)])
    content = read(str(tmp_path / 'epoch_2.pth'))
    file = tmp_path / 'encoder.safetensors'
    with safetensors.safe_open(file, 'pt') as opened:
        assert opened.metadata()['source'] == 'epoch_2.pth'
        assert opened.metadata()['channel_order'] == 'RGB'
        names = opened.keys()
        weights = {name: opened.get_tensor(name) for name in names}
    assert load_encoder(file).settings['type'] == 'MobileFormer'
    assert len(weights) > 50
    for name, tensor in weights.items():
        assert torch.equal(
            tensor, content['state_dict'][f'backbone.{name}']), name
    # These are the averaged weights.
    assert not torch.equal(
        weights['stem.0.weight'],
        content['ema_state_dict']['module.backbone.stem.0.weight'])
    assert logged == [(logging.INFO, f'encoder of {tmp_path}/{name} '
                      f'written to {file}')
                      for name in ('epoch_1.pth', 'epoch_2.pth')]


def test_a_frozen_encoder_is_not_written(tmp_path, logged):
    train(tmp_path, dict(MOBILE_FORMER, frozen_stages=5))
    assert not (tmp_path / 'encoder.safetensors').exists() and not logged


def test_a_failure_does_not_end_the_run(tmp_path, logged):
    (tmp_path / 'encoder.safetensors').mkdir()
    train(tmp_path)
    (level, line), _ = logged  # of each checkpoint
    assert level == logging.WARNING and '\n' not in line
    assert 'encoder.safetensors' in line and 'tools/export.py' in line
    assert (tmp_path / 'epoch_2.pth').exists()
