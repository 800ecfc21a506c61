# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The measure of what an encoder sees of the padding."""
import runpy

import pytest
import torch
from mmcv import imwrite
from mmengine.config import Config
from torch import nn

from ...conftest import ROOT, run_tool

pytest.importorskip('mmdet')


class Maps(nn.Sequential):

    def forward(self, x):
        return (super().forward(x), )


@pytest.fixture(scope='module')
def changes():
    return runpy.run_path(str(ROOT / 'tools/analysis/padding.py'))['changes']


def measure(changes, *layers):
    torch.manual_seed(0)
    image = torch.randn(1, 3, 64, 96)
    (whole, inside), = changes(Maps(*layers).eval(), image, (80, 96), 16)
    return whole, inside


def test_convolutions_see_padding_at_the_edge_alone(changes):
    # Zeros behind the edge are what a convolution adds itself; only the
    # second sees what the first made of them.
    one = measure(changes, nn.Conv2d(3, 4, 3, padding=1))
    whole, inside = measure(changes, nn.Conv2d(3, 4, 3, padding=1),
                            nn.Conv2d(4, 4, 3, padding=1))
    assert one == pytest.approx((0, 0), abs=1e-6)
    assert whole > 1e-3 and inside == pytest.approx(0, abs=1e-6)


def test_global_means_see_it_everywhere(changes):

    class Mean(nn.Module):

        def forward(self, x):
            return x + 1 + x.square().mean((2, 3), keepdim=True)

    whole, inside = measure(changes, Mean())
    assert whole > 1e-3 and inside > 1e-3


def test_the_whole_measure_on_a_detector_that_pads(tmp_path, capsys):
    Config(dict(default_scope='mmdet', model=dict(
        type='RetinaNet', backbone=dict(type='ResNet', depth=18,
                                        base_channels=4),
        data_preprocessor=dict(type='DetDataPreprocessor', mean=[0.] * 3,
                               std=[1.] * 3, pad_size_divisor=32)))).dump(
        tmp_path / 'a.py')
    imwrite(torch.randint(255, (70, 90, 3)).byte().numpy(),
            str(tmp_path / 'a.png'))
    run_tool('analysis/padding.py', tmp_path / 'a.py', tmp_path / 'a.png',
             '--size', 64, 75, '--margin', 16)
    said = capsys.readouterr().out
    table = said[said.index('random weights, 1 images of 64x75'):]
    assert len(table.strip().split('\n')) == 2 + 4 * 4 and 'nan' not in table
