# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Published weights of Mobile-Former V1 give the published network."""
import argparse
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope, init_default_scope
from mmpretrain.registry import MODELS

from qbheat_mm.cli import report_user_errors
from qbheat_mm.engine.origin import describe_backbone
from qbheat_mm.errors import UserError

from .published_weights import DATA, image, listed_shapes, weights
from .reference_v1 import Reference

ROOT = Path(__file__).parents[3]
TOOL = 'model_converters/mobile_former_v1.py'
VARIANTS = ('26m', '52m', '96m', '151m', '214m', '294m', '508m')


def load_tool():
    spec = importlib.util.spec_from_file_location('v1_converter',
                                                  ROOT / 'tools' / TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


converter = load_tool()


@pytest.fixture(autouse=True)
def mmpretrain_scope():
    torch.set_num_threads(1)
    init_default_scope('mmpretrain')
    yield
    DefaultScope._instance_dict.clear()


def build(variant):
    cfg = Config.fromfile(ROOT / 'configs/mobile_former' /
                          f'mf-{variant}_8xb128-coslr-450e_in1k.py')
    return MODELS.build(cfg.model).eval()


def shapes(variant):
    """Published names and shapes, by the converter where no list is."""
    if (DATA / f'v1_keys_{variant}.txt').exists():
        return listed_shapes(variant)
    return {
        name: tuple(tensor.shape) for name, tensor in
        converter.published_tensors(build(variant)).items()
    }


def converted(variant):
    model = build(variant)
    state = converter.convert(model, weights(shapes(variant)))
    model.load_state_dict(state)
    return model


@pytest.mark.parametrize('variant', ['26m', '96m', '294m'])
def test_names_and_shapes_are_the_published_ones(variant):
    tensors = converter.published_tensors(build(variant))
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    assert found == listed_shapes(variant)


@pytest.mark.parametrize('wrap', [
    lambda state: state,
    lambda state: dict(state_dict=state, epoch=3,
                       args=argparse.Namespace(lr=.1)),
    lambda state: dict(
        state_dict={f'module.{name}': tensor
                    for name, tensor in state.items()}),
], ids=['bare', 'state_dict and arguments of timm', 'module.'])
def test_the_variant_is_found_in_every_wrapping(tmp_path, wrap):
    file = tmp_path / 'published.pth'
    torch.save(wrap(weights(listed_shapes('96m'))), file)
    tensors = converter.read_published(str(file))
    assert converter.find_variant(str(file), tensors)[0] == '96m'


@pytest.mark.parametrize('variant', VARIANTS)
def test_each_variant_is_told_from_the_others(variant):
    tensors = converter.published_tensors(build(variant))
    assert converter.find_variant('file', tensors)[0] == variant


@pytest.mark.parametrize('variant', ['96m', '151m'])
def test_outputs_are_those_of_the_authors(variant):
    model = converted(variant)
    model.backbone.out_indices = range(model.backbone.num_stages + 2)
    with torch.no_grad():
        *stages, conv, tokens = model.backbone(image(variant))
        logits = model.head(model.neck((conv, tokens)))
        stem = model.backbone.stem(image(variant))[:, :, ::8, ::8]
    published = np.load(DATA / f'v1_{variant}.npz')
    for name, ours in dict(stem=stem, features=stages[-1], tokens=tokens,
                           logits=logits).items():
        theirs = torch.from_numpy(published[name])
        largest = float(theirs.abs().max())
        torch.testing.assert_close(ours, theirs, rtol=1e-4,
                                   atol=1e-5 * largest, msg=name)


def test_the_tool_writes_a_checkpoint_and_says_for_what(tmp_path, tool):
    torch.save(weights(listed_shapes('294m')), tmp_path / 'published.pth')
    said = tool(TOOL, tmp_path / 'published.pth', tmp_path / 'new/ours.pth')
    assert 'mf-294m: ' in said
    assert 'mf-294m_8xb128-coslr-450e_in1k.py' in said
    checkpoint = torch.load(tmp_path / 'new/ours.pth', weights_only=True)
    expected = converted('294m').state_dict()
    assert checkpoint['state_dict'].keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(checkpoint['state_dict'][name], tensor), name
    assert describe_backbone(checkpoint) == "MobileFormer(arch='mf-294m')"


@pytest.mark.parametrize('variant', VARIANTS)
def test_outputs_are_those_of_the_description(variant):
    model = converted(variant)
    reference = Reference(
        weights(shapes(variant)), model.backbone.arch['stages'],
        model.backbone.arch.get('groups', 1))
    with torch.no_grad():
        ours, theirs = (f(image(variant, 64)) for f in (model, reference))
    torch.testing.assert_close(ours, theirs, rtol=1e-4,
                               atol=1e-5 * float(theirs.abs().max()))


def refusal(tmp_path, content):
    file = tmp_path / 'published.pth'
    torch.save(content, file)
    with pytest.raises(UserError) as error:
        converter.find_variant(str(file),
                               converter.read_published(str(file)))
    assert '\n' not in str(error.value) and str(file) in str(error.value)
    return str(error.value)


def test_what_does_not_fit_is_named(tmp_path):
    state = weights(listed_shapes('96m'))
    del state['features.3.conv1.0.weight']
    state['features.4.local_global.q.bias'] = torch.zeros(7)
    state['extra.weight'] = torch.zeros(2)
    message = refusal(tmp_path, state)
    assert 'the nearest is 96m' in message
    assert '1 missing (features.3.conv1.0.weight)' in message
    assert ('features.4.local_global.q.bias: (7,) in the file, (32,) needed'
            in message)
    assert '1 too many (extra.weight)' in message


def test_other_contents_are_refused(tmp_path):
    assert 'no tensors at all' in refusal(tmp_path, [1, 2])
    assert 'no named tensors' in refusal(tmp_path, dict(state_dict={}))
    assert 'conv.weight' in refusal(tmp_path,
                                    {'conv.weight': torch.zeros(3, 3)})
    state = weights(listed_shapes('26m'))
    state['stem.0.weight'][0, 0, 0, 0] = float('nan')
    message = refusal(tmp_path, state)
    assert 'NaN' in message and 'stem.0.weight' in message


def test_counters_of_batch_norm_may_be_missing():
    state = {name: tensor
             for name, tensor in weights(listed_shapes('96m')).items()
             if not name.endswith('num_batches_tracked')}
    _, _, model = converter.find_variant('file', state)
    assert 'neck.norm.running_mean' in converter.convert(model, state)


def test_a_cut_file_is_told_in_one_line(tmp_path, tool):
    file = tmp_path / 'published.pth'
    torch.save(weights(listed_shapes('26m')), file)
    file.write_bytes(file.read_bytes()[:100000])
    said = tool(TOOL, file, tmp_path / 'ours.pth', ok=False)
    assert f"error: checkpoint '{file}' cannot be read: the file is cut" in (
        said)
    assert 'Traceback' not in said
    assert not (tmp_path / 'ours.pth').exists()


def test_a_target_that_cannot_be_written_is_told_in_one_line(
        tmp_path, monkeypatch, capsys):
    torch.save(weights(listed_shapes('26m')), tmp_path / 'published.pth')
    (tmp_path / 'file').touch()
    for target, words in (('.', 'is a folder'), ('', 'is empty'),
                          ('file/a.pth', 'file')):
        path = f'{tmp_path}/{target}' if target else ''
        monkeypatch.setattr(sys, 'argv', [
            'convert', f'{tmp_path}/published.pth', path])
        with pytest.raises(SystemExit):
            report_user_errors(converter.main)
        last = capsys.readouterr().err.strip().splitlines()[-1]
        assert 'argument DST' in last and words in last
    assert not list(tmp_path.glob('*.part'))


def test_the_published_file_is_not_written_over(tmp_path, monkeypatch):
    published = tmp_path / 'published.pth'
    torch.save(weights(listed_shapes('26m')), published)
    before = published.read_bytes()
    monkeypatch.setattr(sys, 'argv', [
        'convert', str(published), f'{tmp_path}/./published.pth'])
    with pytest.raises(SystemExit, match='would be lost'):
        report_user_errors(converter.main)
    assert published.read_bytes() == before


@pytest.mark.parametrize('frozen_stages', [-1, 6])
def test_converted_weights_serve_a_detector(tmp_path, frozen_stages):
    mmdet = pytest.importorskip('mmdet.registry')
    import qbheat_mm.detection  # noqa: F401
    classifier = converted('96m')
    torch.save(dict(state_dict=classifier.state_dict()), tmp_path / 'a.pth')
    cfg = Config.fromfile(
        ROOT / 'configs/qbheat/coco/'
        'mf-dec-211_mf-285m_frozen_8xb2-500e_coco.py').model
    cfg.backbone.update(
        arch='mf-96m', out_indices=(2, 3), frozen_stages=frozen_stages)
    cfg.backbone.init_cfg.checkpoint = str(tmp_path / 'a.pth')
    cfg.in_channels = (32, 88)
    init_default_scope('mmdet')
    model = mmdet.MODELS.build(cfg)
    model.init_weights()
    for name, tensor in classifier.backbone.state_dict().items():
        assert torch.equal(tensor, model.backbone.state_dict()[name]), name
    feats = model.train().backbone(torch.randn(1, 3, 64, 64))
    assert [f.shape[1:] for f in feats] == [(32, 8, 8), (88, 4, 4)]
    assert [f.requires_grad for f in feats] == [frozen_stages < 0] * 2
    trained = [p.requires_grad for p in model.backbone.parameters()]
    assert any(trained) == (frozen_stages < 0)
