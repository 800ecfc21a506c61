# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Pre-training by one call, in the real runner."""
import logging
import uuid

import pytest
import safetensors
import torch

from qbheat_mm.apis import embed, load_encoder, pretrain
from qbheat_mm.errors import UserError
from qbheat_mm.export import hook
from qbheat_mm.trained.safe_load import safe_load

from ..helpers.checkpoints import ARCH

TINY = {
    'model.predictor.embed_dims': 12, 'model.neck.embed_dims': 12,
    'model.neck.depth': 1, 'model.neck.num_heads': 2}


def run(images, out, options=(), **settings):
    options = {**TINY, 'experiment_name': uuid.uuid4().hex, **dict(options)}
    return pretrain(images, str(out), options=options, **{
        **dict(arch=ARCH, epochs=1, batch_size=4, size=32, workers=0),
        **settings})


def test_a_folder_becomes_an_encoder(folders, tmp_path):
    out = tmp_path / 'run'
    checkpoint = run(folders / 'train', out, epochs=2, seed=3)
    assert checkpoint == str(out / 'epoch_2.pth')
    encoder = load_encoder(checkpoint)
    assert encoder.size == (32, 32)
    assert encoder.normalization.mean == (123.675, 116.28, 103.53)
    assert len(embed(encoder, folders / 'val')) == 6
    saved = torch.load(checkpoint, weights_only=False)
    assert saved['meta']['iter'] == 6  # 12 images, 4 per step
    assert saved['meta']['seed'] == 3
    # The config's learning rate, and a tenth of it for tokens and Former.
    rates = {group['initial_lr']
             for group in saved['optimizer']['param_groups']}
    assert sorted(rates) == pytest.approx([2e-4, 2e-3])
    # The encoder alone is beside it.
    alone = load_encoder(out / 'encoder.safetensors')
    assert alone.normalization.is_close(encoder.normalization)
    for name, tensor in encoder.state_dict().items():
        assert torch.equal(alone.state_dict()[name], tensor), name
    # Another run does not overwrite it, and it can be resumed.
    with pytest.raises(UserError, match='contains another run.*resume=True'):
        run(folders / 'train', out)
    with pytest.raises(UserError, match='T_max=6, not 9'):
        run(folders / 'train', out, epochs=3, resume=True)
    (out / 'epoch_2.pth').unlink()
    assert run(folders / 'train', out, epochs=2, resume=True) == checkpoint


def test_files_and_folders(folders, tmp_path):
    images = [folders / 'train' / 'red', folders / 'val' / 'blue' / '0.png']
    checkpoint = run(images, tmp_path / 'run', batch_size=7)
    assert torch.load(checkpoint, weights_only=False)['meta']['iter'] == 1
    listed = (tmp_path / 'run' / 'images.txt').read_text().splitlines()
    assert len(listed) == 7 and listed[-1] == str(images[1])


@pytest.mark.parametrize('settings, message', [
    (dict(arch='mf-1g'), "arch='mf-1g' is unknown; known are mf-285m"),
    (dict(arch=dict(stem=8)), 'needs'),
    (dict(size=36), 'size=36 must be a multiple of 16'),
    (dict(epochs=0), 'epochs=0'),
    (dict(batch_size=0), 'batch_size'),
    (dict(options={'model.backbon.arch': 1}), 'backbon'),
    (dict(options={'optim_wraper.optimizer.lr': 1}), 'optim_wrapper'),
])
def test_impossible_settings_are_named(settings, message, folders, tmp_path):
    with pytest.raises((UserError, TypeError, ValueError), match=message):
        run(folders / 'train', tmp_path / 'run', **settings)


def test_the_encoder_has_the_averaged_weights_of_the_checkpoint(
        folders, tmp_path):
    content = safe_load(run(folders / 'train', tmp_path, {
        'custom_hooks': [dict(type='EMAHook', momentum=0.3)]}))
    with safetensors.safe_open(tmp_path / 'encoder.safetensors', 'pt') as file:
        assert file.metadata()['source'] == 'epoch_1.pth'
        weights = {name: file.get_tensor(name) for name in [*file.keys()]}
    assert len(weights) > 50
    for name, tensor in weights.items():
        assert torch.equal(
            tensor, content['state_dict'][f'backbone.{name}']), name
    assert not torch.equal(
        weights['stem.0.weight'],
        content['ema_state_dict']['module.backbone.stem.0.weight'])


def test_a_frozen_encoder_is_not_written(folders, tmp_path):
    run(folders / 'train', tmp_path, {'model.backbone.frozen_stages': 3})
    assert not (tmp_path / 'encoder.safetensors').exists()


def test_an_encoder_that_cannot_be_written_does_not_end_the_run(
        folders, tmp_path, monkeypatch):
    lines = []
    monkeypatch.setattr(hook, 'print_log', lambda *args: lines.append(args))
    (tmp_path / 'encoder.safetensors').mkdir()
    run(folders / 'train', tmp_path)
    (line, _, level), = lines
    assert level == logging.WARNING and '\n' not in line
    assert 'encoder.safetensors' in line and 'tools/export.py' in line
