# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Published weights of Mobile-Former V1 give the published network."""
import argparse
import runpy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope
from mmpretrain.registry import MODELS

from ...helpers.tools import ROOT, run_tool
from .published_weights import DATA, image, listed_shapes, weights

VARIANTS = ('26m', '52m', '96m', '151m', '214m', '294m', '508m')


TOOL = 'model_converters/mobile_former_v1.py'
converter = SimpleNamespace(**runpy.run_path(str(ROOT / 'tools' / TOOL)))


@pytest.fixture(autouse=True)
def mmpretrain_scope():
    init_default_scope('mmpretrain')


def build(variant):
    cfg = Config.fromfile(ROOT / 'configs/mobile_former' /
                          f'mf-{variant}_8xb128-coslr-450e_in1k.py')
    return MODELS.build(cfg.model).eval()


def converted(variant):
    model = build(variant)
    shapes = {name: tuple(tensor.shape) for name, tensor in
              converter.published_tensors(model).items()}
    model.load_state_dict(converter.convert(model, weights(shapes)))
    return model


def assert_close(ours, theirs, name=''):
    theirs = torch.from_numpy(theirs)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, msg=name,
                               atol=1e-5 * float(theirs.abs().max()))


@pytest.mark.parametrize('variant', ['26m', '96m', '294m'])
def test_names_and_shapes_are_the_published_ones(variant):
    tensors = converter.published_tensors(build(variant))
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()
            } == listed_shapes(variant)


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
        assert_close(ours, published[name], name)


@pytest.mark.parametrize('variant', VARIANTS)
def test_every_variant_computes_the_reference(variant):
    model = converted(variant)
    with torch.no_grad():
        logits = model(image(variant, 64))[:, ::50]
    reference = np.load(DATA / 'v1_reference.npz')
    assert_close(logits, reference[f'logits_{variant}'])


@pytest.mark.parametrize('wrap', [
    lambda state: state,
    lambda state: dict(state_dict=state, args=argparse.Namespace(lr=.1)),
    lambda state: dict(state_dict={
        f'module.{name}': tensor for name, tensor in state.items()}),
], ids=['bare', 'timm', 'module.'])
def test_the_tool_writes_a_checkpoint(tmp_path, capsys, wrap):
    torch.save(wrap(weights(listed_shapes('96m'))), tmp_path / 'a.pth')
    run_tool(TOOL, tmp_path / 'a.pth', tmp_path / 'new/b.pth')
    assert 'mf-96m_8xb128-coslr-450e_in1k.py' in capsys.readouterr().out
    content = torch.load(tmp_path / 'new/b.pth', weights_only=True)
    expected = converted('96m').state_dict()
    assert content['state_dict'].keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(content['state_dict'][name], tensor), name
    # Later loads read the backbone and its normalization from this.
    assert "arch='mf-96m'" in content['meta']['cfg']


def refusal(tmp_path, content):
    file = tmp_path / 'published.pth'
    torch.save(content, file)
    with pytest.raises(SystemExit) as error:
        run_tool(TOOL, file, tmp_path / 'ours.pth')
    assert str(file) in str(error.value)
    assert not (tmp_path / 'ours.pth').exists()
    return str(error.value)


def test_weights_that_fit_no_variant_are_refused(tmp_path):
    state = weights(listed_shapes('96m'))
    del state['features.3.conv1.0.weight']
    state['features.4.local_global.q.bias'] = torch.zeros(7)
    state['extra.weight'] = torch.zeros(2)
    message = refusal(tmp_path, state)
    assert '96m' in message and 'extra.weight' in message
    assert 'features.3.conv1.0.weight' in message
    assert 'features.4.local_global.q.bias' in message
    refusal(tmp_path, [1, 2])
    refusal(tmp_path, dict(state_dict={}))
    state = weights(listed_shapes('26m'))
    state['stem.0.weight'][0, 0, 0, 0] = float('nan')
    assert 'NaN' in refusal(tmp_path, state)
