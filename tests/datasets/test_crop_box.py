# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A teacher's targets are of the place that the student sees, or refused."""
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mmcv.transforms import Resize
from mmengine.model import BaseModule
from mmengine.registry import DATASETS, MODELS, TRANSFORMS
from PIL import Image

from qbheat_mm.errors import UserError
from qbheat_mm.export import export_encoder
from qbheat_mm.trained import Encoder, Normalization

IDENTITY = Normalization((0., ) * 3, (1., ) * 3)
SIZE = 256
#: Mean and largest error in gray levels of 255.
MEAN, LARGEST = 0.5, 1.


@MODELS.register_module()
class AveragePooling(BaseModule):
    """Mean colors of cells of 8 x 8 pixels."""

    def __init__(self, out_indices=(0, ), init_cfg=None):
        super().__init__(init_cfg)
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        return (F.avg_pool2d(x, 8) * self.weight, )


@TRANSFORMS.register_module()
class PaddingResize(Resize):
    """Like mmdet's FixShapeResize, which pads."""


@pytest.fixture(scope='module')
def work(tmp_path_factory):
    """A teacher, and images whose colors tell the place.

    Waves that are flat at the borders have no error of interpolation there.
    """
    work = tmp_path_factory.mktemp('work')
    export_encoder(
        Encoder(AveragePooling(), IDENTITY, size=(SIZE, SIZE),
                settings=dict(type='AveragePooling')),
        work / 'mean.safetensors')
    (work / 'images').mkdir()
    for number, (height, width) in enumerate(((300, 400), (320, 240))):
        x = np.cos(np.pi * (np.arange(width) + .5) / width)[None]
        y = np.cos(np.pi * (np.arange(height) + .5) / height)[:, None]
        pixels = np.stack([x + 0 * y, y + 0 * x, x * y], 2) * 120 + 128
        Image.fromarray(pixels.round().astype(np.uint8)).save(
            work / f'images/{number}.png')
    return work


def flip(direction='horizontal', prob=1., scope='qbheat_mm'):
    return dict(type='RandomFlip', _scope_=scope, prob=prob,
                direction=direction)


def crop(scale=96, scope='qbheat_mm', **settings):
    return dict(type='RandomResizedCrop', _scope_=scope, scale=scale,
                crop_ratio_range=(0.3, 1.), **settings)


LOAD = dict(type='LoadImageFromFile', _scope_='qbheat_mm')
LOAD_AND_CROP = dict(type='LoadRandomResizedCrop', scale=96)
PACK = dict(type='PackInputs', _scope_='qbheat_mm')
DIRECTIONS = st.sampled_from(['horizontal', 'vertical', 'diagonal'])
RECORDED = st.one_of(
    st.builds(flip, DIRECTIONS, st.sampled_from([0.5, 1.])),
    st.builds(crop, scale=st.sampled_from([64, (80, 120)]),
              interpolation=st.sampled_from(['bilinear', 'bicubic'])),
    st.sampled_from([
        dict(type='Resize', scale=(150, 130)),
        dict(type='Resize', scale=(200, 200), keep_ratio=True),
        dict(type='ResizeEdge', scale=160)]))
#: Each may move pixels, and records nothing.
MOVING = [
    flip(scope='mmpretrain'), flip('diagonal', scope='mmpretrain'),
    crop(scope='mmpretrain'),
    dict(type='CenterCrop', crop_size=60),
    dict(type='CenterCrop', crop_size=500, auto_pad=True),
    dict(type='RandomCrop', crop_size=60),
    dict(type='RandomCrop', crop_size=90, padding=16),
    dict(type='EfficientNetRandomCrop', scale=80),
    dict(type='EfficientNetCenterCrop', crop_size=80),
    dict(type='RandomResize', scale=(80, 90), ratio_range=(0.5, 1.)),
    dict(type='Pad', size=(500, 500)),
    dict(type='RandomTranslatePad', size=500),
    dict(type='Rotate', angle=90., prob=1.),
    dict(type='Rotate', angle=20., prob=0.5),
    dict(type='Shear', magnitude=0.3, prob=1.),
    dict(type='Translate', magnitude=0.4, prob=1.),
    dict(type='torchvision/RandomHorizontalFlip', p=1.),
    dict(type='torchvision/RandomRotation', degrees=90),
    dict(type='torchvision/CenterCrop', size=60),
    dict(type='LoadImageFromFile'), LOAD_AND_CROP, LOAD]


#: Wrappers that keep one image, and those that don't.
WRAPPERS = [
    lambda step: dict(type='RandomApply', transforms=[step], prob=0.5),
    lambda step: dict(type='RandomChoice', transforms=[[step], [step, step]])]
OTHER_WRAPPERS = [
    lambda step: dict(type='MultiView', num_views=1, transforms=[[step]]),
    lambda step: dict(type='TransformBroadcaster', transforms=[step],
                      mapping=dict(img=['img']), auto_remap=True),
    lambda step: dict(type='KeyMapper', transforms=[step],
                      mapping=dict(img='img'), auto_remap=True)]


def wrapped(steps):
    return st.builds(lambda wrap, step: wrap(step),
                     st.sampled_from(WRAPPERS), steps)


def targets_and_colors(work, pipeline, seed):
    """What a teacher tells about the crops, and what they show."""
    dataset = DATASETS.build(dict(
        type='NamedImageFolder', data_root=str(work / 'images'),
        with_label=False, _scope_='mmpretrain', pipeline=pipeline))
    target = MODELS.build(dict(
        type='EncoderTarget', encoder=str(work / 'mean.safetensors'),
        folder=str(work)))
    target.prepare(dataset, str(work), IDENTITY)
    np.random.seed(seed)
    for row in (0, 1, 1):
        sample = dataset[row]
        seen = F.interpolate(
            sample['inputs'][None].float(), (64, 64), mode='bilinear',
            antialias=True).flip(1)
        cells = target(seen, [sample['data_samples']], (4, 4))
        statistics = target.targets.standardize
        yield (cells * statistics.std + statistics.mean,
               F.avg_pool2d(seen, 16).flatten(2).transpose(1, 2))


def assert_same_place(*args):
    for told, seen in targets_and_colors(*args):
        error = (told - seen).abs()
        assert error.mean() < MEAN and error.max() < LARGEST


@given(first=st.sampled_from([LOAD, LOAD_AND_CROP]), seed=st.integers(0, 999),
       steps=st.lists(RECORDED | wrapped(RECORDED), max_size=5))
@example(LOAD_AND_CROP, 0, [flip(), flip()])
@example(LOAD_AND_CROP, 0, [flip(), flip('vertical')])
@example(LOAD_AND_CROP, 0, [flip('diagonal'), flip()])
@example(LOAD_AND_CROP, 0, [flip('diagonal'), crop()])
@example(LOAD, 0, [])
@example(LOAD, 0, [flip(), crop(), flip('vertical'), crop()])
@example(LOAD, 0, [crop(), crop(), dict(type='Resize', scale=(64, 96))])
def test_targets_are_of_the_place_that_is_seen(work, first, seed, steps):
    assert_same_place(work, [first, *steps, PACK], seed)


@settings(max_examples=200)
@given(first=st.sampled_from([LOAD, LOAD_AND_CROP]), seed=st.integers(0, 999),
       before=st.lists(RECORDED, max_size=2),
       after=st.lists(RECORDED, max_size=2),
       step=st.sampled_from(MOVING) | wrapped(st.sampled_from(MOVING))
       | st.builds(lambda wrap, step: wrap(step),
                   st.sampled_from(OTHER_WRAPPERS), RECORDED))
@example(LOAD, 0, [], [crop()], dict(type='CenterCrop', crop_size=150))
@example(LOAD_AND_CROP, 0, [], [], dict(type='CenterCrop', crop_size=60))
@example(LOAD_AND_CROP, 0, [flip()], [], flip(scope='mmpretrain'))
def test_transforms_that_record_nothing_are_refused(
        work, first, seed, before, after, step):
    pipeline = [first, *before, step, *after, PACK]
    with pytest.raises(UserError) as caught:
        next(targets_and_colors(work, pipeline, seed))
    message = str(caught.value)
    assert '\n' not in message and 'online=True' in message
    assert f'train_dataloader.dataset.pipeline[{1 + len(before)}]' in message


COLORS = [
    dict(type='ColorJitter', brightness=0.4),
    dict(type='RandomErasing', erase_prob=1.),
    dict(type='RandomApply', transforms=[
        dict(type='NumpyToPIL', to_rgb=True),
        dict(type='torchvision/ColorJitter', hue=0.1),
        dict(type='PILToNumpy', to_bgr=True)]),
    dict(type='RandAugment', _scope_='qbheat_mm', num_policies=1,
         magnitude_level=9, policies=[
             dict(type='Equalize'),
             dict(type='Posterize', magnitude_range=(0, 4))])]


@pytest.mark.parametrize('step', COLORS)
def test_transforms_of_colors_are_welcome(work, step):
    for _ in targets_and_colors(work, [LOAD_AND_CROP, step, PACK], 0):
        pass


@pytest.mark.parametrize('pipeline, message', [
    ([LOAD_AND_CROP, dict(type='RandAugment', policies='timm_increasing',
                          num_policies=2, magnitude_level=9), PACK],
     r'pipeline\[1\]\.transforms\[3\] \(Rotate\)'),
    ([dict(type='LoadImageFromFile'), crop(), PACK],
     r"pipeline\[0\] \(LoadImageFromFile\).* _scope_='qbheat_mm'"),
    ([LOAD_AND_CROP, dict(type='PaddingResize', scale=(64, 64)), PACK],
     r'pipeline\[1\] \(PaddingResize\)'),
    ([crop(), PACK], r'pipeline\[0\]'),
    ([LOAD_AND_CROP, dict(type='PackInputs')],
     r"pipeline\[1\] \(PackInputs\).* _scope_='qbheat_mm'"),
    ([LOAD_AND_CROP, dict(PACK, meta_keys=('sample_idx', ))],
     r'pipeline\[1\].meta_keys=.* crop_box'),
    ([LOAD_AND_CROP, dict(PACK, meta_keys=('crop_box', ))],
     r'pipeline\[1\].meta_keys=.* sample_idx')])
def test_the_transform_and_the_way_out_are_named(work, pipeline, message):
    with pytest.raises(UserError, match=message):
        next(targets_and_colors(work, pipeline, 0))
