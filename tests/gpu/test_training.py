# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Training in mixed precision: freezing, resuming, compiling."""
import pytest
import torch

from .device import DEVICE

PRETRAIN = 'qbheat_mf-demo_pretrain.py'
SHORT = ('train_cfg.max_epochs=1', 'val_dataloader.dataset.sizes=tiny',
         'train_cfg.val_interval=1')


@pytest.fixture(scope='module')
def encoder(train, tmp_path_factory):
    """A pre-training checkpoint and its path."""
    folder = tmp_path_factory.mktemp('encoder')
    content = train(PRETRAIN, folder, options=('train_cfg.max_epochs=1', ))
    return content, (folder / 'last_checkpoint').read_text()


@pytest.mark.parametrize('config', [
    'mf-demo_linear.py', 'mf-demo_tran1.py',
    'retinanet_mf-demo_fpn_frozen.py', 'mf-dec_mf-demo_frozen.py'])
def test_a_frozen_encoder_stays_bit_identical(train, encoder, config,
                                              tmp_path):
    content, path = encoder
    found = train(config, tmp_path, options=(
        *SHORT, f'model.backbone.init_cfg.checkpoint={path}'))
    names = [name for name in content['state_dict']
             if name.startswith('backbone.')]
    assert len(names) > 100
    for name in names:
        assert torch.equal(found['state_dict'][name],
                           content['state_dict'][name]), name
    others = [tensor for name, tensor in found['state_dict'].items()
              if not name.startswith('backbone.')]
    assert others and all(tensor.isfinite().all() for tensor in others)


def test_a_resumed_run_continues(train, tmp_path):
    """Loss scale and steps exactly, weights up to atomics."""
    deterministic = ('randomness.seed=1', 'randomness.deterministic=True')
    whole = train(PRETRAIN, tmp_path / 'whole', options=(
        'train_cfg.max_epochs=2', 'default_hooks.checkpoint.interval=1',
        *deterministic))
    first = tmp_path / 'whole' / 'epoch_1.pth'
    parts = train(PRETRAIN, tmp_path / 'parts', '--resume', first, options=(
        'train_cfg.max_epochs=2', 'default_hooks.checkpoint.interval=1',
        *deterministic))
    for key in ('epoch', 'iter'):
        assert parts['meta'][key] == whole['meta'][key]
    scales = [content['optimizer'].get('loss_scaler', {}).get('scale')
              for content in (parts, whole)]
    assert scales[0] == scales[1]
    assert DEVICE != 'cuda' or scales[0] > 0
    for name, tensor in whole['state_dict'].items():
        torch.testing.assert_close(
            parts['state_dict'][name], tensor, rtol=1e-2, atol=1e-4,
            msg=lambda text, name=name: f'{name}: {text}')


def test_a_compiled_model_trains(train, tmp_path):
    found = train(PRETRAIN, tmp_path, '--compile',
                  options=('train_cfg.max_epochs=1', ))
    assert all(tensor.isfinite().all()
               for tensor in found['state_dict'].values())
