# Copyright (c) QB-Heat MM authors. All rights reserved.
"""mmpretrain's inferencers, with random weights."""
import mmcv
import numpy as np
import pytest
import torch
from mmengine.registry import MODELS
from mmpretrain import (
    FeatureExtractor,
    ImageClassificationInferencer,
    ImageRetrievalInferencer,
    get_model,
)

from qbheat_mm.errors import UserError

from .shipped import load, write_imagenet

V1 = 'mobile_former/mf-26m_8xb128-coslr-450e_in1k.py'


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp('imagenet')
    write_imagenet(root)
    return root / 'val'


@pytest.fixture(scope='module', params=['ours by its name', 'of before'])
def config(request):
    cfg = load(V1)
    for step in cfg.test_dataloader.dataset.pipeline:
        if step.type == 'ResizeEdge':
            step.scale = 64
        elif step.type == 'CenterCrop':
            step.crop_size = 64
    if request.param == 'of before':  # as in checkpoints of former versions
        cfg.test_dataloader.dataset.pipeline[0] = dict(
            type='LoadNamedImageFromFile')
    cfg.model.backbone.init_cfg = None
    return cfg


@pytest.fixture(scope='module')
def model(config):
    torch.manual_seed(0)
    return get_model(config)


def inputs_of(folder):
    """The same image as a path and as an array, and all as a folder."""
    path = str(folder / '0.jpg')
    return [path, mmcv.imread(path), str(folder)]


def test_classification(model, folder):
    inferencer = ImageClassificationInferencer(model)
    path, array, whole = inputs_of(folder)
    first, = inferencer(path)
    second, = inferencer(array)
    np.testing.assert_array_equal(first['pred_scores'], second['pred_scores'])
    assert first['pred_class'] == inferencer.classes[first['pred_label']]
    assert len(inferencer(whole, batch_size=3)) == 4
    assert len(inferencer([path, array], batch_size=2)) == 2


@pytest.mark.parametrize('content, words', [
    (None, 'cannot be read'), (b'', 'is empty'), (b'no image', 'no image'),
    ('cut', 'is cut'), ('folder', 'is a folder')])
def test_an_image_that_cannot_be_read_is_named(model, folder, tmp_path,
                                               content, words):
    path = tmp_path / 'bad.jpg'
    if content == 'cut':
        path.write_bytes((folder / '0.jpg').read_bytes()[:-99])
    elif content == 'folder':
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    for inferencer in (ImageClassificationInferencer(model),
                       FeatureExtractor(model)):
        with pytest.raises(UserError) as error:
            inferencer([str(path)])
        assert 'bad.jpg' in str(error.value) and words in str(error.value)


def test_features(model, folder):
    extract = FeatureExtractor(model)
    path, array, whole = inputs_of(folder)
    first, = extract(path, stage='backbone')
    second, = extract(array, stage='backbone')
    for a, b in zip(first, second):
        for x, y in zip(*((t, ) if torch.is_tensor(t) else t for t in (a, b))):
            torch.testing.assert_close(x, y)
    assert len(extract(whole, batch_size=4, stage='backbone')) == 4


def test_retrieval(config, folder):
    cfg = config.copy()
    backbone = dict(cfg.model.backbone, out_type='featmap') if (
        'out_type' in cfg.model.backbone) else cfg.model.backbone
    cfg.model = dict(
        type='ImageToImageRetriever',
        image_encoder=[backbone, dict(type='PoolForRetrieval')],
        prototype='',  # replaced by the inferencer
        data_preprocessor=cfg.get('data_preprocessor'))
    files = sorted(str(path) for path in folder.iterdir())
    for prototype in (str(folder), files):
        inferencer = ImageRetrievalInferencer(cfg, prototype=prototype)
        for image in (files[1], mmcv.imread(files[1])):
            best, = inferencer(image, topk=1)
            assert best[0]['sample']['img_path'] == files[1]


@MODELS.register_module()
class PoolForRetrieval(torch.nn.Module):
    """The pixels' mean, one vector an image."""

    def forward(self, feats):
        feats = feats[0]  # the pixels; the tokens come after them
        feats = feats[0] if isinstance(feats, tuple | list) else feats
        return feats.mean((2, 3))
