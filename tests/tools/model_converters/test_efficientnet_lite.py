# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Weights under other names, in the order of the layers, become timm's."""
import timm
import torch

from qbheat_mm.apis import load_encoder

from ...helpers.tools import run_tool


def test_features_are_those_of_the_weights(tmp_path):
    torch.manual_seed(0)
    network = timm.create_model('tf_efficientnet_lite0')
    network(torch.randn(2, 3, 64, 64))  # BN statistics
    torch.save({f'_{i}.{name}': value for i, (name, value) in
                enumerate(network.state_dict().items())}, tmp_path / 'a.pth')
    run_tool('model_converters/efficientnet_lite.py', tmp_path / 'a.pth',
             tmp_path / 'a.safetensors')
    encoder = load_encoder(tmp_path / 'a.safetensors')
    pixels = torch.randint(0, 256, (1, 3, 64, 96))
    with torch.no_grad():
        found, = encoder(encoder.normalize(pixels))
        expected = network.eval().forward_features((pixels - 127) / 128)
    torch.testing.assert_close(found, expected)
