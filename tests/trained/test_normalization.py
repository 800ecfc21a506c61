# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Images are normalized as by mm's data preprocessors, and back."""
from types import SimpleNamespace

import mmpretrain.models  # noqa: F401
import pytest
import torch
from mmengine.registry import DefaultScope
from mmpretrain.registry import MODELS

from qbheat_mm.trained import Normalization, Normalize


@pytest.mark.parametrize('kind, flag', [
    ('SelfSupDataPreprocessor', 'to_rgb'), ('ClsDataPreprocessor', 'to_rgb'),
    ('mmengine.ImgDataPreprocessor', 'bgr_to_rgb')])
@pytest.mark.parametrize('rgb', [True, False])
@pytest.mark.parametrize('statistics', [
    dict(mean=[120., 110., 100.], std=[60., 50., 55.]), {}])
def test_equals_the_preprocessor_and_its_inverse(kind, flag, rgb, statistics):
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        preprocessor = MODELS.build(
            dict(type=kind, **statistics, **{flag: rgb}))
    images = torch.randint(0, 256, (2, 3, 4, 6), dtype=torch.uint8)
    samples = [] if kind.startswith('mmengine') else None
    bgr = list(images.flip(1)) if samples is not None else images.flip(1)
    expected = preprocessor(dict(inputs=bgr, data_samples=samples))['inputs']

    normalization = Normalization.of(SimpleNamespace(
        data_preprocessor=preprocessor))
    normalize = Normalize(normalization)

    assert normalization.rgb == rgb
    inputs = normalize(images)
    torch.testing.assert_close(inputs, expected.float())
    torch.testing.assert_close(normalize.inverse(inputs), images.float())


def test_other_statistics_are_not_close():
    ours = Normalization((123.675, ), (58.395, ))
    assert ours.is_close(Normalization((123.7, ), (58.4, )))
    assert not ours.is_close(Normalization((123.675, ), (57.12, )))  # blue
    assert not ours.is_close(Normalization((123.675, ), (58.395, ), rgb=False))
    assert not ours.is_close(Normalization())
