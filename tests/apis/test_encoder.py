# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Encoders from their checkpoints alone."""
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

from qbheat_mm.apis import load_encoder
from qbheat_mm.errors import UserError
from qbheat_mm.export import export_encoder

from ..helpers.checkpoints import (
    MEAN,
    MODEL,
    STD,
    settings_of,
    write_checkpoint,
)
from ..helpers.networks import RETINANET, write_run

RESNET = dict(
    type='ImageClassifier',
    data_preprocessor=dict(mean=MEAN, std=STD, to_rgb=False),
    backbone=dict(type='ResNet', depth=18, base_channels=4, stem_channels=4,
                  frozen_stages=4),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='LinearClsHead', num_classes=2, in_channels=32))


def test_a_checkpoint_describes_its_encoder(checkpoint, tmp_path):
    expected = write_checkpoint(tmp_path / 'x.pth', MODEL, settings_of())
    encoder = load_encoder(checkpoint)
    assert not encoder.training and not DefaultScope._instance_dict
    assert encoder.normalization.mean == tuple(MEAN)
    assert encoder.normalization.std == tuple(STD)
    assert encoder.normalization.rgb
    assert encoder.size == (32, 32)
    for name, tensor in expected.backbone.state_dict().items():
        assert torch.equal(encoder.backbone.state_dict()[name], tensor)
    # The features are those of the network that was trained.
    images = torch.randint(0, 255, (2, 3, 48, 32), dtype=torch.uint8)
    bgr = expected.data_preprocessor(
        dict(inputs=images.flip(1), data_samples=None))['inputs']
    features, tokens = encoder(encoder.normalize(images))
    assert features.shape == (2, 20, 12, 8) and tokens.shape == (2, 3, 16)
    torch.testing.assert_close(features, expected.backbone(bgr)[0])


def test_other_backbones_and_channel_orders(tmp_path):
    path = tmp_path / 'resnet.pth'
    expected = write_checkpoint(path, RESNET, settings_of(RESNET))
    encoder = load_encoder(path)
    assert encoder.name == 'ResNet(depth=18)' and not encoder.normalization.rgb
    images = torch.randint(0, 255, (1, 3, 64, 64), dtype=torch.uint8)
    bgr = expected.data_preprocessor(
        dict(inputs=images.flip(1), data_samples=None))['inputs']
    out, = encoder(encoder.normalize(images))
    torch.testing.assert_close(out, expected.backbone(bgr)[0])
    assert encoder.pool((out, )).shape == (1, 32)
    with pytest.raises(UserError, match='has no tokens'):
        encoder.pool((out, ), 'avg+token')
    # Not frozen as in its run: it may be fine-tuned.
    assert all(p.requires_grad for p in encoder.parameters())


@pytest.mark.parametrize('backbone', [
    dict(MODEL['backbone'], out_indices=(0, 1), frozen_stages=2,
         init_cfg=dict(type='PretrainedEncoder', checkpoint=None)),
    # Of mmdet, whose ResNet has other outputs than mmpretrain's.
    dict(type='ResNet', depth=18, base_channels=4, stem_channels=4,
         num_stages=2, strides=(1, 2), dilations=(1, 1), out_indices=(0, 1)),
    dict(type='mmpretrain.ResNet', depth=18, base_channels=4,
         stem_channels=4, out_indices=(0, 1))])
def test_a_detectors_encoder(backbone, tmp_path):
    pytest.importorskip('mmdet')
    _, _, file, expected = write_run(tmp_path, dict(
        RETINANET, backbone=backbone, data_preprocessor=dict(
            type='DetDataPreprocessor', mean=MEAN, std=STD, bgr_to_rgb=True)),
        'mmdet')
    encoder = load_encoder(file)
    file = export_encoder(load_encoder(file),
                          str(tmp_path / 'encoder.safetensors'))
    images = torch.randint(0, 255, (1, 3, 64, 64), dtype=torch.uint8)
    data = expected.data_preprocessor(dict(inputs=list(images.flip(1))))
    for found in (encoder, load_encoder(file)):
        assert type(found.backbone) is type(expected.backbone)
        assert found.normalization == encoder.normalization
        assert found.normalization.rgb
        assert all(p.requires_grad for p in found.parameters())
        if backbone['type'] != 'MobileFormer':
            for ours, theirs in zip(found(found.normalize(images)),
                                    expected.backbone(data['inputs'])):
                torch.testing.assert_close(ours, theirs)
            continue
        # The last features and the tokens, which the detector does not take.
        features, tokens = found(found.normalize(images))
        assert features.shape == (1, 20, 16, 16) and tokens.ndim == 3
        state = expected.backbone.state_dict()
        for name, tensor in found.backbone.state_dict().items():
            assert torch.equal(tensor, state[name]), name


def test_pooling(checkpoint):
    encoder = load_encoder(checkpoint)
    features, tokens = torch.randn(2, 20, 3, 4), torch.randn(2, 3, 16)
    outs = features, tokens
    assert torch.equal(encoder.pool(outs), features.mean((2, 3)))
    assert torch.equal(encoder.pool(outs, 'max'), features.amax((2, 3)))
    assert torch.equal(encoder.pool(outs, 'token'), tokens[:, 0])
    assert torch.equal(encoder.pool(outs, 'avg+token'), torch.cat(
        [features.mean((2, 3)), tokens[:, 0]], 1))
    with pytest.raises(UserError, match="pool='mean' is unknown"):
        encoder.pool(outs, 'mean')


def test_bare_weights_need_a_config(checkpoint, tmp_path):
    bare = tmp_path / 'bare.pth'
    weights = load_encoder(checkpoint).backbone.state_dict()
    torch.save(weights, bare)
    with pytest.raises(UserError, match='model.backbone.*config=FILE'):
        load_encoder(bare)
    Config(settings_of()).dump(tmp_path / 'config.py')
    for config in (str(tmp_path / 'config.py'), Config(settings_of())):
        encoder = load_encoder(bare, config)
        assert encoder.normalization.mean == tuple(MEAN)
    with pytest.raises(UserError, match='does not fit'):
        load_encoder(bare, 'qbheat_mf-285m_8xb128-amp-coslr-100e_in1k')


def test_a_config_that_normalizes_otherwise_is_refused(checkpoint):
    settings = settings_of()
    settings['model']['data_preprocessor']['mean'] = [0., 0., 0.]
    with pytest.raises(UserError, match='was trained with RGB'):
        load_encoder(checkpoint, Config(settings))


def test_a_checkpoint_without_its_normalization(tmp_path):
    settings = settings_of()
    del settings['model']['data_preprocessor']
    write_checkpoint(tmp_path / 'x.pth', MODEL, settings)
    with pytest.raises(UserError, match='does not contain mean, std'):
        load_encoder(tmp_path / 'x.pth')


@pytest.mark.parametrize('kind', ['subprocess.call', 'os.system', 5])
def test_functions_named_by_a_checkpoint_are_not_called(
        kind, tmp_path, monkeypatch):
    monkeypatch.setattr('subprocess.call', lambda *a, **k: pytest.fail('ran'))
    settings = settings_of()
    settings['model']['backbone'] = dict(type=kind, args=['true'])
    write_checkpoint(tmp_path / 'x.pth', MODEL, settings)
    with pytest.raises(UserError, match="toolbox's class"):
        load_encoder(tmp_path / 'x.pth')


@pytest.mark.parametrize('kind, message', [
    ('ResNet', 'invalid depth 3'), ('MyNet', 'is not in the .* registry')])
def test_an_encoder_that_cannot_be_built(kind, message, tmp_path):
    settings = settings_of()
    settings['model']['backbone'] = dict(type=kind, depth=3)
    write_checkpoint(tmp_path / 'x.pth', MODEL, settings)
    with pytest.raises(UserError, match=rf'x\.pth.*build {kind}.*{message}'
                       ) as error:
        load_encoder(tmp_path / 'x.pth')
    assert '\n' not in str(error.value)


def test_a_stored_config_that_says_nothing(tmp_path):
    for text in ('model = 3', 'model = dict(backbone=3)', '(', ''):
        write_checkpoint(tmp_path / 'x.pth', MODEL, text)
        with pytest.raises(UserError, match='x.pth'):
            load_encoder(tmp_path / 'x.pth')
