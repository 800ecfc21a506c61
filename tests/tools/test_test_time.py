# Copyright (c) QB-Heat MM authors. All rights reserved.
"""tools/test.py: predictions, pictures and test-time augmentation."""
import json
import runpy
import shutil
import sys

import mmcv
import mmengine
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import Compose
from mmengine.registry import DefaultScope

from qbheat_mm.cli import augment_at_test_time

from ..helpers.tools import ROOT, run_tool


@pytest.fixture
def call(monkeypatch, tmp_path):
    """Run tools/test.py in this process."""

    def call(*args):
        monkeypatch.chdir(tmp_path)
        run_tool('test.py', *args)

    return call


def test_a_classifier_is_tested_and_drawn(call, tmp_path, classifier_config,
                                          trained_classifier):
    call(classifier_config, trained_classifier / 'epoch_4.pth', '--out',
         'out.pkl', '--out-metrics', 'metrics.json', '--show-dir', 'pictures')
    metrics = json.loads((tmp_path / 'metrics.json').read_text())
    assert 0 <= metrics['accuracy/top1'] <= 100
    assert len(mmengine.load(tmp_path / 'out.pkl')) == 8
    assert len(list((tmp_path / 'pictures').rglob('*.[jp][pn]g'))) == 8


def test_the_config_of_the_training_stays_in_its_folder(
        call, tmp_path, trained_classifier):
    work_dir = tmp_path / 'work'
    shutil.copytree(trained_classifier, work_dir)
    config, = work_dir.glob('*.py')
    before = config.read_bytes()
    call(config, work_dir, '--tta', '--work-dir', work_dir)
    assert config.read_bytes() == before


def test_scores_of_an_image_and_its_mirror_image_are_averaged(
        call, tmp_path, data, classifier_config, trained_classifier):
    for file in (data / 'images').rglob('*.jpg'):
        target = tmp_path / 'mirrored' / file.relative_to(data)
        # PNG, to avoid further JPEG artifacts.
        mmcv.imwrite(mmcv.imread(str(file))[:, ::-1],
                     str(target.with_suffix('.png')))
    fixed = ['test_dataloader.dataset.pipeline.1.type=Resize',
             'test_dataloader.dataset.pipeline.2.prob=0.']
    scores = {}
    for name, root, flags in (('plain', data, []), ('tta', data, ['--tta']),
                              ('mirrored', tmp_path / 'mirrored', [])):
        call(classifier_config, trained_classifier / 'epoch_4.pth', *flags,
             '--out', f'{name}.pkl', '--cfg-options', *fixed,
             f'test_dataloader.dataset.data_root={root}')
        scores[name] = torch.stack([
            prediction['pred_score']
            for prediction in mmengine.load(tmp_path / f'{name}.pkl')])
    assert not torch.allclose(scores['plain'], scores['mirrored'])
    torch.testing.assert_close(
        scores['tta'], (scores['plain'] + scores['mirrored']) / 2)


def test_boxes_of_an_image_and_its_mirror_image_are_merged(
        call, tmp_path, detector_config):
    pytest.importorskip('mmcv.ops')
    from mmdet.registry import MODELS
    from mmdet.utils import register_all_modules
    register_all_modules()
    cfg = Config.fromfile(detector_config)
    torch.manual_seed(0)
    torch.save(dict(state_dict=MODELS.build(cfg.model).state_dict()),
               tmp_path / 'a.pth')
    call(detector_config, tmp_path / 'a.pth', '--tta', '--out', 'boxes.pkl',
         '--out-metrics', 'metrics.json')
    assert 'coco/bbox_mAP' in json.loads(
        (tmp_path / 'metrics.json').read_text())
    assert len(mmengine.load(tmp_path / 'boxes.pkl')) == 4


def test_images_are_flipped_before_they_are_padded(tmp_path):
    pytest.importorskip('mmdet')
    import qbheat_mm.detection  # noqa: F401
    random = np.random.default_rng(0)
    mmcv.imwrite(random.integers(0, 255, (40, 20, 3), np.uint8),
                 str(tmp_path / 'a.png'))
    cfg = Config(dict(
        default_scope='mmdet', model=dict(type='A'),
        test_dataloader=dict(dataset=dict(pipeline=[
            dict(type='LoadImageFromFile'),
            dict(type='Resize', scale=(40, 30), keep_ratio=True),
            dict(type='PadToScale'),
            dict(type='PackDetInputs', meta_keys=('img_shape', ))]))))
    augment_at_test_time(cfg)
    with DefaultScope.overwrite_default_scope('mmdet'):
        prepare = Compose(cfg.test_dataloader.dataset.pipeline)
        plain, mirrored = prepare(dict(
            img_path=str(tmp_path / 'a.png')))['inputs']
    assert plain.shape[1:] == (40, 30)
    assert (mirrored[..., :20] == plain[..., :20].flip(2)).all()
    assert (mirrored[..., 20:] == 127).all()


def test_augmentation_of_the_config_takes_precedence():
    cfg = Config(dict(
        default_scope='mmdet', model=dict(type='A'),
        tta_model=dict(type='B'), tta_pipeline=[dict(type='C')],
        test_dataloader=dict(dataset=dict(
            type='D', dataset=dict(pipeline=[dict(type='E')])))))
    augment_at_test_time(cfg)
    assert cfg.model == dict(type='B', module=dict(type='A'))
    assert cfg.test_dataloader.dataset.dataset.pipeline == [dict(type='C')]


NMS = dict(type='soft_nms', iou_threshold=0.7, class_agnostic=True)
USUAL = dict(type='nms', iou_threshold=0.5)


@pytest.mark.parametrize('settings, nms, most', [
    (dict(rpn=dict(nms=USUAL, max_per_img=7),
          rcnn=dict(nms=NMS, max_per_img=5)), NMS, 5),
    (dict(max_per_img=300), USUAL, 300), (None, USUAL, 100),
    (dict(nms=NMS, max_per_img=-1), NMS, 100)])
def test_boxes_are_merged_like_in_the_detector(settings, nms, most):
    cfg = Config(dict(
        default_scope='mmdet', model=dict(type='A', test_cfg=settings),
        test_dataloader=dict(dataset=dict(pipeline=[dict(type='E')]))))
    augment_at_test_time(cfg)
    assert cfg.model.tta_cfg == dict(nms=nms, max_per_img=most)


def test_mixed_precision_is_switched_off():
    from mmengine.optim import AmpOptimWrapper
    set_precision = runpy.run_path(str(ROOT / 'tools/train.py'))[
        'set_precision']
    cfg = Config(dict(optim_wrapper=dict(
        type=AmpOptimWrapper, loss_scale='dynamic', optimizer=dict(lr=1))))
    set_precision(cfg, None)
    assert cfg.optim_wrapper.type is AmpOptimWrapper
    set_precision(cfg, False)
    assert cfg.optim_wrapper == dict(
        type='OptimWrapper', optimizer=dict(lr=1))


def test_compile_keeps_the_settings_of_the_config(monkeypatch):
    tool = runpy.run_path(str(ROOT / 'tools/train.py'))
    for args, given, expected in (
            (['--compile'], {}, True), ([], {}, None),
            (['--compile'], dict(compile=dict(mode='max-autotune')),
             dict(mode='max-autotune'))):
        monkeypatch.setattr(sys, 'argv', ['train.py', 'any.py', *args])
        cfg = Config(dict(optim_wrapper=dict(type='OptimWrapper'),
                          default_hooks=dict(), **given))
        cfg.work_dir = 'runs'
        tool['apply_arguments'](cfg, tool['parse_args']())
        assert cfg.get('compile') == expected
