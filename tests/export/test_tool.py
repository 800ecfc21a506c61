# Copyright (c) QB-Heat MM authors. All rights reserved.
"""tools/export.py: what it writes, prints and refuses."""
import copy
import importlib.util

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS

from ..helpers.networks import TINY_RESNET, any_size, pretraining, write_run


@MODELS.register_module()
class ExportReadsValues(torch.nn.Module):
    """Not traceable by torch.export."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 32, 32, 32)

    def forward(self, x):
        x = self.conv(x)
        return (x if x.sum() > 0 else -x, )


@MODELS.register_module()
class ExportBessel(torch.nn.Module):
    """Has no ONNX operator."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 32, 32, 32)

    def forward(self, x):
        return (torch.special.bessel_j0(self.conv(x)), )


@any_size
def test_an_encoder_in_all_formats(tool, tmp_path):
    _, config, checkpoint, _ = write_run(
        tmp_path, pretraining(TINY_RESNET, 32, patch=32))
    printed = tool(config, checkpoint, '--format', 'pt2', '--out',
                   'new/encoder.pt2', '--with-preprocessing', '--out-indices',
                   1, 3)
    assert 'images -> stage_1, stage_3' in printed
    program = torch.export.load(tmp_path / 'new/encoder.pt2').module()
    image = torch.zeros(1, 97, 64, 3, dtype=torch.uint8)
    assert program(image)['stage_3'].shape == (1, 32, 4, 2)
    tool(config, tmp_path, '--format', 'safetensors', '--out',
         'encoder.safetensors')
    assert (tmp_path / 'encoder.safetensors').stat().st_size > 10000


def test_the_classifier_of_a_model_with_test_time_augmentation(
        tool, classifier, tmp_path, monkeypatch):
    models = []
    monkeypatch.setattr(
        'qbheat_mm.export.programs.export_network',
        lambda model, *args: models.append(model) or dict(
            kind='classifier', inputs=(), outputs=(), difference=0.))
    cfg, _, checkpoint, _ = classifier
    given = copy.deepcopy(cfg)
    given.model = dict(type='mmpretrain.AverageClsScoreTTA', module=cfg.model)
    Config(given.to_dict()).dump(tmp_path / 'tta.py')
    tool('tta.py', checkpoint, '--format', 'pt2', '--out', 'a.pt2')
    assert type(models[0].model).__name__ == 'ImageClassifier'


@pytest.mark.parametrize('args, words', [
    (['--format', 'safetensors', '--out', 'a.safetensors', '--size', '64',
      '64'], '--size is for --format pt2 and onnx'),
    (['--format', 'onnx', '--out', 'a.pth'], 'must end in .onnx'),
    (['--format', 'pt2', '--out', 'a.pt2', '--size', '16', '64'],
     'needs more than 16 pixels'),
    (['--format', 'pt2', '--out', 'a.pt2', '--out-indices', '9'],
     'out_indices=(9,)')])
def test_options_that_exclude_each_other(error_of, pretrained, args, words):
    assert words in error_of(*pretrained[1:3], *args)


def test_a_missing_package(error_of, pretrained, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        'importlib.util.find_spec', lambda name, *args:
        None if name == 'onnx' else find_spec(name, *args))
    line = error_of(*pretrained[1:3], '--format', 'onnx', '--out', 'a.onnx')
    assert 'the package onnx: pip install onnx onnxscript onnxruntime' in line


@pytest.mark.parametrize('kind, form, words', [
    ('ExportReadsValues', 'pt2', 'data-dependent'),
    ('ExportBessel', 'onnx', 'bessel')])
def test_a_network_that_cannot_be_exported_says_why(
        error_of, tmp_path, kind, form, words):
    if form == 'onnx':
        pytest.importorskip('onnxscript')
    _, config, checkpoint, _ = write_run(
        tmp_path, pretraining(dict(type=kind), 32, patch=32))
    line = error_of(config, checkpoint, '--format', form, '--out',
                    f'a.{form}', '--size', 64, 64)
    assert 'this encoder cannot be exported' in line and words in line
    assert not (tmp_path / f'a.{form}').exists()
