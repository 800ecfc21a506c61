"""What tools read in settings: the classes that they name, image sizes."""
import numpy as np
import pytest
from mmengine.config import Config
from mmengine.registry import TRANSFORMS, init_default_scope
from mmpretrain.datasets import MultiView
from mmpretrain.models import ImageClassifier

from qbheat_mm.utils.settings import training_size, type_name

PIPELINES = dict(
    crop_of_mmcv=[dict(type='Resize', scale=(96, 128)),
                  dict(type='CenterCrop', crop_size=(96, 64))],
    crop_of_mmpretrain=[dict(type='RandomCrop', crop_size=(64, 96))],
    resized_crop=[dict(type='RandomResizedCrop', scale=(64, 96))],
    one_number=[dict(type='RandomResizedCrop', scale=48)],
    efficient_net=[dict(type='EfficientNetCenterCrop', crop_size=48)],
    scaled=[dict(type='Resize', scale=(96, 64)),
            dict(type='RandomFlip', prob=.5)],
    scaled_after_the_crop=[dict(type='CenterCrop', crop_size=100),
                           dict(type='Resize', scale=(64, 32))],
    torchvision=[dict(type='NumpyToPIL'),
                 dict(type='torchvision/RandomResizedCrop', size=(64, 96),
                      scale=(.2, 1.)),
                 dict(type='PILToNumpy')],
    inside_another=[dict(type='RandomApply', prob=1., transforms=[
        dict(type='RandomResizedCrop', scale=(64, 96))])])


@pytest.mark.parametrize('kind, name', [
    *((kind, 'ImageClassifier') for kind in (
        'ImageClassifier', 'mmpretrain.ImageClassifier',
        'mmpretrain.models.ImageClassifier', ImageClassifier)), (None, '')])
def test_every_spelling_is_read(kind, name):
    assert type_name(dict(type=kind)) == name


def test_configurations_of_the_new_style_are_read(tmp_path):
    path = tmp_path / 'config.py'
    path.write_text('from mmpretrain.models import ImageClassifier\n'
                    'model = dict(type=ImageClassifier)\n')
    cfg = Config.fromfile(path, lazy_import=True)
    assert type_name(cfg.model) == 'ImageClassifier'


def trained_on(pipeline):
    return Config(dict(train_dataloader=dict(dataset=dict(
        pipeline=pipeline))))


@pytest.mark.parametrize('name', PIPELINES)
def test_it_is_what_the_pipeline_makes_of_an_image(name):
    init_default_scope('mmpretrain')
    results = dict(img=np.zeros((200, 160, 3), np.uint8),
                   img_shape=(200, 160))
    for step in PIPELINES[name]:
        results = TRANSFORMS.build(step)(results)
    shape = results['img'].shape
    assert training_size(trained_on(PIPELINES[name])) == shape[:2]


def test_of_several_views_it_is_the_first():
    views = [[dict(type='RandomResizedCrop', scale=(64, 96))],
             [dict(type='RandomResizedCrop', scale=32)]]
    for kind in ('MultiView', MultiView):
        assert training_size(trained_on([dict(
            type=kind, num_views=[1, 1], transforms=views)])) == (64, 96)


@pytest.mark.parametrize('pipeline', [
    [], [dict(type='LoadImageFromFile')],
    [dict(type='ResizeEdge', scale=64)],
    [dict(type='Resize', scale=(64, 64), keep_ratio=True)],
    [dict(type='Resize', scale_factor=.5)]])
def test_none_where_images_keep_their_shapes(pipeline):
    assert training_size(trained_on(pipeline)) is None
