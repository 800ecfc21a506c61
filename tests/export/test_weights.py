# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Encoders as safetensors, and as torchvision and timm know them."""
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torchvision
from mmengine.registry import MODELS, DefaultScope
from safetensors import safe_open
from safetensors.torch import load_file

from qbheat_mm.apis import load_encoder
from qbheat_mm.engine import PretrainedEncoder
from qbheat_mm.errors import UserError
from qbheat_mm.export import export_encoder, export_state_dict
from qbheat_mm.export.libraries import convert
from qbheat_mm.version import __version__

from .conftest import MOBILE_FORMER, pretraining, weighted, write_run

SMALL = dict(depths=[1, 1, 2, 1], channels=[8, 16, 24, 32])
CONVNEXT = dict(type='ConvNeXt', arch=SMALL, gap_before_final_norm=False)
V2 = dict(CONVNEXT, use_grn=True, layer_scale_init_value=0.)
RESNET = dict(type='ResNet', depth=18)


@pytest.fixture(scope='module')
def file(pretrained, tmp_path_factory):
    out = tmp_path_factory.mktemp('out') / 'new' / 'encoder.safetensors'
    return export_encoder(load_encoder(pretrained[2]), out)


def facts_of(file):
    with safe_open(file, 'pt') as opened:
        return opened.metadata()


def test_it_contains_the_backbone_and_its_description(file, pretrained):
    tensors, network = load_file(file), pretrained[3]
    assert tensors.keys() == network.backbone.state_dict().keys()
    for name, tensor in network.backbone.state_dict().items():
        assert torch.equal(tensors[name], tensor), name
    assert Path(file).stat().st_mode == Path(pretrained[2]).stat().st_mode
    facts = facts_of(file)
    backbone = json.loads(facts.pop('backbone'))
    assert backbone['type'] == 'MobileFormer'
    assert backbone['arch']['tokens'] == [3, 16]
    assert facts == dict(
        format='pt', mean='[120.0, 110.0, 100.0]', std='[60.0, 50.0, 55.0]',
        channel_order='RGB', qbheat_mm=__version__, source='epoch_1.pth',
        source_sha256=hashlib.sha256(
            Path(pretrained[2]).read_bytes()).hexdigest())


def test_it_is_loaded_as_a_checkpoint(file, pretrained, tmp_path):
    image = torch.randint(0, 256, (1, 3, 64, 48), dtype=torch.uint8)
    inputs = (image - torch.tensor([120., 110., 100.])[:, None, None]
              ) / torch.tensor([60., 50., 55.])[:, None, None]
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        backbone = MODELS.build(dict(MOBILE_FORMER))
    PretrainedEncoder(file)(backbone)
    encoder = load_encoder(file)
    with torch.no_grad():
        expected = pretrained[3].backbone(inputs)[0]
        assert torch.equal(backbone.eval()(inputs)[0], expected)
        torch.testing.assert_close(
            encoder(encoder.normalize(image))[0], expected)
    again = export_encoder(encoder, tmp_path / 'again.safetensors')
    kept = {name: text for name, text in facts_of(file).items()
            if not name.startswith('source')}
    assert kept.items() <= facts_of(again).items()
    encoder.normalization = replace(encoder.normalization, rgb=False)
    bgr = load_encoder(export_encoder(encoder, tmp_path / 'bgr.safetensors'))
    assert bgr.normalization == encoder.normalization


def test_it_contains_the_size_of_the_training(pretrained, tmp_path):
    content = torch.load(pretrained[2], weights_only=False)
    content['meta']['cfg'] += """
train_dataloader = dict(dataset=dict(pipeline=[
    dict(type='RandomResizedCrop', scale=(48, 32))]))"""
    torch.save(content, tmp_path / 'epoch_1.pth')
    file = export_encoder(load_encoder(tmp_path / 'epoch_1.pth'),
                          tmp_path / 'encoder.safetensors')
    assert json.loads(facts_of(file)['training_size']) == [48, 32]
    assert load_encoder(file).size == (48, 32)


def test_a_checkpoint_is_not_overwritten(file, tmp_path):
    copied = tmp_path / 'encoder.safetensors'
    copied.write_bytes(Path(file).read_bytes())
    encoder = load_encoder(copied)
    for export in (export_encoder, lambda *args: export_state_dict(
            *args, 'torchvision')):
        with pytest.raises(UserError, match='refusing to overwrite'):
            export(encoder, tmp_path / '.' / copied.name)
    assert copied.read_bytes() == Path(file).read_bytes()


def build(settings):
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        return weighted(MODELS.build(dict(settings)))


def run_of(folder, backbone, channels):
    """An encoder of a pre-training, and its backbone."""
    _, _, checkpoint, network = write_run(
        folder, pretraining(backbone, channels, patch=32))
    return load_encoder(checkpoint), network.backbone


def test_torchvision_loads_a_resnet_as_the_docs_say(tmp_path):
    encoder, backbone = run_of(tmp_path, RESNET, 512)
    out = tmp_path / 'resnet18.pth'
    assert 0 <= export_state_dict(encoder, out, 'torchvision') < 1e-5
    model = torchvision.models.resnet18()
    model.fc = torch.nn.Identity()
    model.load_state_dict(torch.load(out, weights_only=True),
                          strict=True)
    image = torch.randn(2, 3, 96, 65)
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(image),
                                   backbone(image)[0].mean((2, 3)))


def test_timm_loads_a_resnet_as_the_docs_say(tmp_path):
    timm = pytest.importorskip('timm')
    encoder, backbone = run_of(tmp_path, RESNET, 512)
    out = str(tmp_path / 'resnet18.safetensors')
    export_state_dict(encoder, out, 'timm')
    assert facts_of(out)['source'] == 'epoch_1.pth'
    model = timm.create_model('resnet18', num_classes=0, checkpoint_path=out)
    image = torch.randn(2, 3, 96, 64)
    with torch.no_grad():
        torch.testing.assert_close(model.eval().forward_features(image),
                                   backbone(image)[0])


@pytest.mark.parametrize('settings, libraries', [
    (dict(type='ResNeXt', depth=50), ('torchvision', 'timm')),
    (CONVNEXT, ('timm', )), (V2, ('timm', )),
    (dict(CONVNEXT, linear_pw_conv=False), ('torchvision', 'timm')),
    (dict(type='ResNetV1d', depth=50), ('timm', ))])
def test_libraries_compute_the_same_features(settings, libraries):
    for library in libraries:
        pytest.importorskip(library)
        assert convert(build(settings), library)[1] < 1e-4


@pytest.mark.parametrize('settings', [
    MOBILE_FORMER,
    dict(RESNET, depth=50, style='caffe'),
    dict(RESNET, strides=(1, 2, 2, 1)),
    V2,
    dict(CONVNEXT, act_cfg=dict(type='ReLU'))],
    ids=lambda settings: str(settings)[:60])
def test_networks_that_torchvision_lacks_are_refused(settings):
    with pytest.raises(UserError, match='torchvision.*--format safetensors'):
        convert(build(settings), 'torchvision')


def test_nothing_is_written_unchecked(pretrained, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__('sys').modules, 'timm.models', None)
    encoder, _ = run_of(tmp_path, RESNET, 512)
    with pytest.raises(UserError, match='pip install timm'):
        export_state_dict(encoder, tmp_path / 'a.pth', 'timm')
    assert not (tmp_path / 'a.pth').exists()
