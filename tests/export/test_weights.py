# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Encoders as safetensors."""
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from mmengine.registry import MODELS, DefaultScope
from safetensors import safe_open
from safetensors.torch import load_file

from qbheat_mm.apis import load_encoder
from qbheat_mm.engine import PretrainedEncoder
from qbheat_mm.export import export_encoder
from qbheat_mm.version import __version__

from ..helpers.networks import MOBILE_FORMER, pretraining, write_run
from .checks import namespace_of_docs


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


def test_timm_and_torchvision_load_it_as_the_docs_say(tmp_path, monkeypatch):
    _, _, checkpoint, network = write_run(tmp_path, pretraining(
        dict(type='TimmEncoder', name='resnet18'), 512, patch=32))
    monkeypatch.chdir(tmp_path)
    export_encoder(load_encoder(checkpoint), 'encoder.safetensors')
    models = namespace_of_docs('removeprefix')
    image = torch.randn(2, 3, 96, 65)
    with torch.no_grad():
        expected = network.backbone(image)[0].mean((2, 3))
        for name in ('theirs', 'model'):
            torch.testing.assert_close(models[name].eval()(image), expected)
