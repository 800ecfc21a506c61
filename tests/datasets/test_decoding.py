# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Decoding where the model is: the same batches as by the CPU's pipeline."""
from pathlib import Path

import numpy as np
import pytest
import torch
from mmcv.transforms import Compose
from mmengine.config import Config
from mmengine.dataset import default_collate, pseudo_collate
from mmengine.registry import MODELS as MMENGINE_MODELS
from mmpretrain.registry import MODELS, TRANSFORMS
from PIL import Image

from qbheat_mm.datasets import decoding
from qbheat_mm.engine.runner.gpu_decoding import (
    decode_on_device,
    fit_decoding,
)
from qbheat_mm.errors import UserError

from .conftest import draw, encode


def recipe(**crop):
    """What is changed of the recipe of pre-training, small."""
    return Config(dict(
        train_dataloader=dict(
            collate_fn=dict(type='default_collate'),
            dataset=dict(pipeline=[
                dict(type='LoadImageFromFile', _scope_='qbheat_mm',
                     deferred=True),
                dict(type='RandomResizedCrop', _scope_='qbheat_mm',
                     **dict(dict(scale=32, interpolation='bicubic'), **crop)),
                dict(type='RandomFlip', prob=0.5),
                dict(type='PackInputs')])),
        model=dict(data_preprocessor=dict(
            type='SelfSupDataPreprocessor', mean=[120, 110, 100],
            std=[50, 60, 70], to_rgb=True))))


def batches(cfg, paths, collate):
    """A batch of a recipe, drawn from one seed."""
    np.random.seed(4)
    pipeline = Compose([TRANSFORMS.build(dict(step)) for step in
                        cfg.train_dataloader.dataset.pipeline])
    data = collate([pipeline(dict(img_path=path)) for path in paths])
    preprocessor = MODELS.build(dict(cfg.model.data_preprocessor))
    return preprocessor(data, training=True), np.random.rand()


@pytest.fixture
def paths(tmp_path):
    """Soft pictures, of one of which nothing is left to decode."""
    turned = Image.Exif()
    turned[274] = 6
    colour, grey = draw(64, 80, 1) // 2 + 64, draw(96, 72, 2)[..., 0]
    files = {'a.jpg': encode(colour, quality=95),
             'grey.jpg': encode(grey),
             'b.png': encode(colour, 'PNG'),
             'turned.jpg': encode(colour, exif=turned)}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    return [str(tmp_path / name) for name in files] * 3


@pytest.mark.parametrize('crop', [
    dict(), dict(scale=(32, 48), interpolation='bilinear',
                 crop_ratio_range=(0.2, 1.))])
def test_batches_are_those_of_the_cpu(paths, crop):
    cfg = recipe(**crop)
    (expected, a) = batches(cfg, paths, default_collate)
    decode_on_device(cfg)
    (found, b) = batches(cfg, paths, pseudo_collate)
    assert a == b, 'as many random numbers'
    assert found['inputs'].dtype == torch.float32
    # in grey levels, of the smallest deviation
    difference = (found['inputs'] - expected['inputs']).abs() * 50
    assert found['inputs'].shape == expected['inputs'].shape
    assert difference.mean() <= 0.5 and difference.max() <= 3
    assert [s.img_path for s in found['data_samples']] == paths


def test_what_the_device_refuses_the_cpu_decodes(paths, monkeypatch):
    """One line, once; a file that nobody can decode is named."""
    cfg = recipe()
    decode_on_device(cfg)
    expected, _ = batches(cfg, paths, pseudo_collate)
    lines = []

    def refuse(files, device):
        raise RuntimeError(f'no decoder\non {device}')

    monkeypatch.setattr(decoding, 'jpeg_decoder', lambda: refuse)
    monkeypatch.setattr(decoding, 'print_log',
                        lambda line, **kwargs: lines.append(line))
    preprocessor = MODELS.build(dict(cfg.model.data_preprocessor))
    pipeline = Compose([TRANSFORMS.build(dict(step)) for step in
                        cfg.train_dataloader.dataset.pipeline])
    for _ in range(2):
        np.random.seed(4)
        data = pseudo_collate([pipeline(dict(img_path=p)) for p in paths])
        found = preprocessor(data)
    assert len(lines) == 1 and '(no decoder on cpu)' in lines[0]
    torch.testing.assert_close(found['inputs'], expected['inputs'])
    data['inputs'][0] = torch.zeros(9, dtype=torch.uint8)
    with pytest.raises(UserError, match=f"image '{paths[0]}' is no image"):
        preprocessor(data)

    # what libjpeg goes on after is taken, and told
    content = (file := Path(paths[0])).read_bytes()
    half = len(content) // 2
    file.write_bytes(content[:half] + b'\xff\xc0' + content[half + 2:])
    preprocessor(pseudo_collate([pipeline(dict(img_path=p)) for p in paths]))
    assert f"image '{paths[0]}' is damaged" in lines[1]


def test_want_of_memory_is_no_reason_to_decode_elsewhere(paths, monkeypatch):
    cfg = recipe()
    decode_on_device(cfg)

    def exhaust(files, device):
        raise torch.cuda.OutOfMemoryError('too many images')

    monkeypatch.setattr(decoding, 'jpeg_decoder', lambda: exhaust)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        batches(cfg, paths, pseudo_collate)


def test_images_pass():
    cfg = recipe()
    images = torch.randint(0, 255, (2, 3, 32, 32), dtype=torch.uint8)
    expected = MODELS.build(dict(cfg.model.data_preprocessor))(
        dict(inputs=images, data_samples=None))
    decode_on_device(cfg)
    found = MMENGINE_MODELS.build(dict(cfg.model.data_preprocessor))(
        dict(inputs=images))
    torch.testing.assert_close(found['inputs'], expected['inputs'])


def test_other_pipelines_are_refused():
    for change in (lambda c: c.train_dataloader.dataset.pipeline.insert(
                       2, dict(type='ColorJitter')),
                   lambda c: c.train_dataloader.dataset.pipeline[2].update(
                       direction='vertical'),
                   lambda c: c.train_dataloader.dataset.pipeline[1].pop(
                       '_scope_'),
                   lambda c: c.model.data_preprocessor.update(
                       type='MoCoPreprocessor')):
        cfg = recipe()
        change(cfg)
        for fit in (decode_on_device, fit_decoding):
            with pytest.raises(UserError,
                               match='gpu_decode=True.*leave it out'):
                fit(cfg)
