# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Files written by earlier versions can be used."""
import pytest
import torch
from mmengine.config import Config

from qbheat_mm.apis import load_encoder, load_heads
from qbheat_mm.export import Exported, load_model

from ..helpers.tools import ROOT

FILES = ROOT / 'tests/data/v0.3.0'
IMAGES = torch.randint(0, 256, (2, 3, 40, 56), dtype=torch.uint8,
                       generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope='module')
def encoder():
    return load_encoder(str(FILES / 'encoder.safetensors'))


def require_same_weights(backbone, expected):
    expected = expected.state_dict()
    assert backbone.state_dict().keys() == expected.keys()
    for name, tensor in backbone.state_dict().items():
        assert torch.equal(tensor, expected[name]), name


@pytest.mark.parametrize('version', ['v0.2.0', 'v0.3.0'])
def test_encoder_of_the_checkpoint(version):
    encoder, found = (load_encoder(str(FILES.with_name(version) / file))
                      for file in ('encoder.safetensors', 'epoch_1.ckpt'))
    assert found.size == encoder.size == (64, 64)
    torch.testing.assert_close(found.normalize(IMAGES),
                               encoder.normalize(IMAGES))
    require_same_weights(found.backbone, encoder.backbone)


def test_exported_network_computes_the_same_features(encoder):
    pytest.importorskip('onnxruntime')
    found = Exported(str(FILES / 'encoder.onnx'))(
        IMAGES.permute(0, 2, 3, 1))
    with torch.no_grad():
        expected = encoder(encoder.normalize(IMAGES))
    for output, features in zip(('features', 'tokens'), expected,
                                strict=True):
        torch.testing.assert_close(
            torch.from_numpy(found[output]), features, rtol=1e-3, atol=1e-4)


def test_probe(encoder):
    checkpoint = str(FILES / 'lin.ckpt')
    content = torch.load(checkpoint, weights_only=False)
    cfg = Config.fromstring(content['meta']['cfg'], '.py')
    loaded = load_model(cfg, checkpoint)
    assert loaded.classes == ('blue', 'red')
    model = loaded.model
    require_same_weights(model.backbone, encoder.backbone)
    inputs = encoder.normalize(IMAGES)
    with torch.no_grad():
        expected = model(inputs, mode='tensor')
    assert torch.equal(model.head.fc.weight,
                       content['state_dict']['head.fc.weight'])
    found = load_heads(dict(lin=(cfg, checkpoint))).predict(inputs)['lin']
    for sample, scores in zip(found, expected.softmax(1), strict=True):
        torch.testing.assert_close(sample.pred_score, scores)
