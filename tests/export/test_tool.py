# Copyright (c) QB-Heat MM authors. All rights reserved.
"""tools/export.py: what it writes and prints, and what it refuses."""
import copy
import runpy
import sys
from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from qbheat_mm.errors import UserError
from qbheat_mm.export.network import make_graph
from qbheat_mm.export.source import read_model

from .conftest import TINY_RESNET, any_size, pretraining, write_run

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope='module')
def resnet(tmp_path_factory):
    """A run of pre-training of a small ResNet."""
    return write_run(tmp_path_factory.mktemp('small'),
                     pretraining(TINY_RESNET, 32, patch=32))


@pytest.fixture
def tool(monkeypatch, capsys, tmp_path):
    """Run the tool in this process; return what it prints."""

    def call(*args, name='export.py'):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, 'argv', [name, *map(str, args)])
        capsys.readouterr()
        runpy.run_path(str(ROOT / 'tools' / name), run_name='__main__')
        return capsys.readouterr().out

    return call


@pytest.fixture
def error_of(tool):
    """The line that the tool ends with."""

    def call(*args):
        with pytest.raises(SystemExit) as end:
            tool(*args)
        line = str(end.value)
        assert line.startswith('error: ') and '\n' not in line
        return line

    return call


@any_size
def test_a_program_and_its_way_are_told(tool, resnet, tmp_path):
    _, config, checkpoint, network = resnet
    printed = tool(config, checkpoint, '--format', 'pt2', '--out',
                   'new/encoder.pt2', '--with-preprocessing')
    assert 'encoder written to new/encoder.pt2: images -> features' in printed
    assert 'largest relative difference from PyTorch: ' in printed
    program = torch.export.load(tmp_path / 'new/encoder.pt2').module()
    image = torch.zeros(1, 97, 64, 3, dtype=torch.uint8)
    assert program(image)['features'].shape == (1, 32, 4, 2)


def test_weights_for_other_programs(tool, resnet, pretrained, tmp_path):
    pytest.importorskip('safetensors')
    _, config, checkpoint, _ = pretrained
    printed = tool(config, checkpoint, '--format', 'safetensors', '--out',
                   'encoder.safetensors')
    assert 'encoder.safetensors' in printed
    assert (tmp_path / 'encoder.safetensors').stat().st_size > 10000


@pytest.mark.parametrize('args,words', [
    (['--format', 'onnx', '--out', 'a.pt2'], "'a.pt2' must end in .onnx"),
    (['--format', 'safetensors', '--out', 'a.safetensors', '--size', '64',
      '64'], '--size has no meaning for --format safetensors'),
    (['--format', 'torchvision', '--out', 'a.pth'],
     'torchvision has no MobileFormer'),
    (['--format', 'pt2', '--out', 'a.pt2', '--size', '16', '64'],
     'needs more than 16 pixels'),
    (['--format', 'pt2', '--out', 'a.pt2', '--out-indices', '9'],
     'out_indices=(9,)')])
def test_what_does_not_go_together(error_of, pretrained, args, words):
    assert words in error_of(*pretrained[1:3], *args)


def test_an_unknown_format_names_the_known(tool, pretrained, capsys):
    with pytest.raises(SystemExit) as end:
        tool(*pretrained[1:3], '--format', 'tflite', '--out', 'a')
    assert end.value.code == 2
    assert "'tflite' (choose from" in capsys.readouterr().err


def test_a_checkpoint_of_another_network(error_of, pretrained, classifier):
    line = error_of(classifier[1], pretrained[2], '--format', 'pt2', '--out',
                    'a.pt2')
    assert 'does not fit the configuration' in line


def test_packages_that_are_missing(error_of, pretrained, monkeypatch):
    from qbheat_mm.export import writing
    monkeypatch.setitem(writing._NEEDED, 'onnx', ('onnx', 'no_such_package'))
    pytest.importorskip('onnx')
    line = error_of(*pretrained[1:3], '--format', 'onnx', '--out', 'a.onnx')
    assert 'needs no_such_package: pip install no_such_package' in line


def test_detectors_that_cannot_be_exported(error_of, retinanet, tmp_path):
    import copy

    from .conftest import RETINANET
    model = copy.deepcopy(RETINANET)
    model.update(type='FCOS')
    model['bbox_head'] = dict(
        type='FCOSHead', num_classes=3, in_channels=8, feat_channels=8,
        stacked_convs=1, strides=[16, 32],
        regress_ranges=((-1, 64), (64, 1e8)), norm_cfg=None)
    _, config, checkpoint, _ = write_run(tmp_path, model, 'mmdet')
    line = error_of(config, checkpoint, '--format', 'pt2', '--out', 'a.pt2')
    assert 'FCOS' in line and '--part encoder' in line


def test_a_network_that_cannot_be_traced_says_why(error_of, tmp_path):
    from mmengine.registry import MODELS

    @MODELS.register_module(force=True)
    class ReadsValues(torch.nn.Module):

        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 32, 32, 32)

        def forward(self, x):
            x = self.conv(x)
            return (x if x.sum() > 0 else -x, )

    _, config, checkpoint, _ = write_run(
        tmp_path, pretraining(dict(type='ReadsValues'), 32, patch=32))
    line = error_of(config, checkpoint, '--format', 'pt2', '--out', 'a.pt2')
    assert 'this encoder cannot be exported' in line


@any_size
def test_what_onnx_has_no_operator_for(error_of, tmp_path):
    pytest.importorskip('onnxscript')
    from mmengine.registry import MODELS

    @MODELS.register_module(force=True)
    class Waves(torch.nn.Module):

        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Sequential(
                torch.nn.Conv2d(3, 32, 3, 2, 1),
                *(torch.nn.Conv2d(32, 32, 3, 2, 1) for _ in range(4)))

        def forward(self, x):
            return (torch.special.bessel_j0(self.conv(x)), )

    _, config, checkpoint, _ = write_run(
        tmp_path, pretraining(dict(type='Waves'), 32, patch=32))
    arguments = config, checkpoint, '--format', 'onnx', '--out', 'a.onnx'
    line = error_of(*arguments, '--size', 64, 64)
    assert 'this encoder cannot be exported' in line and 'bessel' in line
    assert line.isprintable() and len(line) < 500
    assert line.endswith('what may go: a program of torch (--format pt2)')
    assert '--format pt2), or a fixed size' in error_of(*arguments)
    assert not (tmp_path / 'a.onnx').exists()


def test_a_classifier_of_folders_whose_classes_a_run_counts(classifier):
    cfg, _, checkpoint, network = classifier
    given = Config(dict(default_scope='mmpretrain', count_classes=True,
                        model=copy.deepcopy(cfg.model)))
    given.model.head.num_classes = 2  # of the file
    source = read_model(given, checkpoint)
    weights = source.model.state_dict()
    assert all(torch.equal(tensor, weights[name])
               for name, tensor in network.state_dict().items())
    assert given.model.head.num_classes == 2
    given.count_classes = False
    with pytest.raises(UserError, match='of another shape'):
        read_model(given, checkpoint)


def test_a_network_as_it_was_tested_with_views(classifier, mf_dec):
    for cfg, _, checkpoint, _ in (classifier, mf_dec):
        for part in ('model', 'encoder'):
            given = copy.deepcopy(cfg)
            given.model = dict(type='AnyTTA', module=cfg.model)
            graph, _ = make_graph(given, checkpoint, part, None)
            assert graph.kind == make_graph(cfg, checkpoint, part,
                                            None)[0].kind
            assert part == 'model' or graph.kind == 'encoder'
            assert given.model.type == 'AnyTTA'
