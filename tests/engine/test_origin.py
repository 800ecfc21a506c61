# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The pixels that a checkpoint was trained with, and those that there are."""
import pytest
import torch
from mmengine.config import Config
from mmpretrain.registry import MODELS

from qbheat_mm.engine.origin import (
    Pixels,
    describe_backbone,
    pixels_of,
    require_pixels,
    trained_pixels,
)
from qbheat_mm.errors import UserError

MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
IMAGENET = Pixels(MEAN, STD, True)


def checkpoint(**settings):
    return dict(meta=dict(cfg=Config(settings).pretty_text))


@pytest.mark.parametrize('settings', [
    dict(data_preprocessor=dict(mean=MEAN, std=STD, to_rgb=True)),
    dict(model=dict(data_preprocessor=dict(mean=list(MEAN), std=list(STD),
                                           bgr_to_rgb=True)),
         data_preprocessor=dict(mean=[0.], std=[1.])),
    dict(model=dict(type='Wrapper', detector=dict(data_preprocessor=dict(
        mean=MEAN, std=STD, bgr_to_rgb=True)))),
])
def test_pixels_are_read_from_the_configuration(settings):
    assert trained_pixels(checkpoint(**settings)) == IMAGENET


@pytest.mark.parametrize('content', [
    {}, [], None, dict(meta=None), dict(meta=dict(cfg='a b')), checkpoint(),
    checkpoint(model=dict(backbone=dict(type='ResNet'))),
    checkpoint(data_preprocessor=dict(mean='x', std=[1])),
    checkpoint(data_preprocessor=dict(mean=5, std=[1]))
])
def test_a_checkpoint_that_does_not_say_is_of_unknown_pixels(content):
    assert trained_pixels(content) is None
    require_pixels(None, IMAGENET, 'a.pth', '')


@pytest.mark.parametrize('kind,flag', [
    ('ClsDataPreprocessor', 'to_rgb'), ('SelfSupDataPreprocessor', 'to_rgb'),
    ('SelfSupDataPreprocessor', 'bgr_to_rgb'),
    ('mmengine.ImgDataPreprocessor', 'bgr_to_rgb')
])
@pytest.mark.parametrize('value', [True, False])
def test_pixels_are_read_from_what_is_built(kind, flag, value):
    settings = {'mean': MEAN, 'std': STD, flag: value}
    built = MODELS.build(dict(settings, type=kind))
    assert pixels_of(built).is_near(Pixels(MEAN, STD, value))
    assert trained_pixels(checkpoint(data_preprocessor=settings)).is_near(
        pixels_of(built))
    bare = MODELS.build({'type': kind, flag: value})
    assert pixels_of(bare) == Pixels((), (), value)
    assert pixels_of(torch.nn.Identity()) is None


@pytest.mark.parametrize('other', [
    Pixels(MEAN, STD, False), Pixels((), (), True),
    Pixels(MEAN[::-1], STD, True), Pixels(MEAN, (1., 1., 1.), True),
    Pixels(MEAN[:1], STD[:1], True), Pixels((127.5, ) * 3, STD, True)
])
def test_other_pixels_are_refused_with_both_and_the_way_out(other):
    with pytest.raises(UserError) as error:
        require_pixels(IMAGENET, other, 'a.pth', 'add --x=True')
    message = str(error.value)
    assert "'a.pth'" in message and message.endswith('add --x=True')
    assert str(IMAGENET) in message and str(other) in message
    assert 'RGB, mean 123.675/116.28/103.53' in message


def test_rounded_statistics_are_the_same():
    require_pixels(IMAGENET, Pixels((124., 116., 104.), (58., 57., 57.), True),
                   'a.pth', '')


def test_a_text_that_is_not_run_is_still_read(tmp_path):
    from qbheat_mm.compat import load_checkpoint
    text = ("import os\nmodel = dict(backbone=dict(type='A', depth=18), "
            'data_preprocessor=dict(mean=[1.], std=[2.]))')
    torch.save(dict(meta=dict(cfg=text), state_dict={}), tmp_path / 'a.pth')
    loaded = load_checkpoint(str(tmp_path / 'a.pth'))
    assert describe_backbone(loaded) == 'A(depth=18)'
    assert trained_pixels(loaded) == Pixels((1., ), (2., ), False)


@pytest.mark.parametrize('mean, std, near', [
    (123.675, 58.395, True), (123.7, 58.4, True),  # rounded
    (0.485 * 255, 0.229 * 255, True),  # of values up to 1
    (127.5, 58.395, False), (123.675, 57.12, False),  # 3 and 2 per cent away
    (0.485, 0.229, False), (123.675, 57.375, False),
])
def test_pixels_are_near_to_one_per_cent(mean, std, near):
    ours = Pixels((123.675, ), (58.395, ), True)
    assert ours.is_near(Pixels((mean, ), (std, ), True)) == near
    assert not ours.is_near(Pixels((mean, ), (std, ), False))
    assert not ours.is_near(Pixels((), (), True))
