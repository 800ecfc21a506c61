# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Every shipped configuration takes a step; checkpoints pass on their weights.
"""
import pytest
import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner

from qbheat_mm.engine.checkpoint import read
from qbheat_mm.errors import UserError

from . import panoptic_quality
from .shipped import (
    NAMES,
    SIZE,
    load,
    shrink,
    write_coco,
    write_folders,
    write_imagenet,
    write_own,
    write_panoptic,
)

# Children that change the number of epochs alone are audited by
# test_recipes.py; running them would repeat the first of their family.
LONGER = {name for name in NAMES for n in (200, 400, 800, 1600, 2400)
          if f'-{n}e_in1k' in name and name.startswith('qbheat/qbheat_mf')}


@pytest.fixture(scope='session')
def data(tmp_path_factory):
    """Tiny data: ImageNet, COCO, boxes and folders of one's own."""
    from mmdet.datasets import CocoDataset, CocoPanopticDataset
    imagenet, coco, own, folders = map(
        tmp_path_factory.mktemp, ('imagenet', 'coco', 'own', 'folders'))
    write_imagenet(imagenet)
    write_coco(coco, CocoDataset.METAINFO['classes'])
    things = CocoPanopticDataset.METAINFO['thing_classes']
    write_panoptic(coco, CocoPanopticDataset.METAINFO['classes'], len(things))
    write_own(own)
    write_folders(folders)
    return dict(mmpretrain=imagenet, mmdet=coco, own=own, folders=folders)


class Done(Exception):
    """The step has been taken."""


class StopHook(Hook):

    def before_train(self, runner):
        self.encoder = encoder_of(runner.model)

    def after_train_iter(self, runner, batch_idx, data_batch=None,
                         outputs=None):
        self.loss = outputs['loss']
        raise Done


def small(name, data, work_dir):
    cfg = load(name)
    # Four sub-blocks of a quarter at stride 32 need 128 pixels.
    size = 128 if 'resnet50' in name or 'convnext' in name else 64
    kind = {'own-data': 'own', 'own-folders': 'folders'}.get(
        name.removesuffix('.py').split('_')[-1], cfg.default_scope)
    return shrink(cfg, data[kind], work_dir, size)


def take_a_step(cfg):
    """Train for one iteration of the whole run; give the runner."""
    runner, stop = Runner.from_cfg(cfg), StopHook()
    runner.register_hook(stop, 'LOWEST')
    with pytest.raises(Done):
        runner.train()
    assert torch.isfinite(stop.loss)
    # What is frozen stays bit by bit, statistics of BN included.
    trained = any(p.requires_grad for p in runner.model.backbone.parameters())
    for name, tensor in encoder_of(runner.model).items():
        assert trained or torch.equal(tensor, stop.encoder[name]), name
    return runner


@pytest.fixture
def panopticapi(monkeypatch):
    """What is needed of a package that no index has."""
    panoptic_quality.provide(monkeypatch)


@pytest.mark.parametrize(
    'name', [name for name in NAMES if name not in LONGER])
def test_one_step(name, data, tmp_path, panopticapi):
    runner = take_a_step(small(name, data, tmp_path))
    # A trained parameter without a gradient, which has no state in the
    # optimizer, would stop a distributed run.
    for key, parameter in runner.model.named_parameters():
        state = runner.optim_wrapper.optimizer.state.get(parameter)
        assert bool(state) == parameter.requires_grad, key
        assert torch.isfinite(parameter).all(), key
    assert runner.param_schedulers
    if runner.val_loop is not None:
        batch = next(iter(runner.val_dataloader))
        assert len(batch['inputs']) == 2


PANOPTIC = 'qbheat/coco/panoptic-fpn_mf-285m_fpn_frozen_8xb2-1x_coco.py'


def test_panoptic_segmentation_is_evaluated(data, tmp_path, panopticapi,
                                            monkeypatch):
    from mmdet.models import PanopticFPN
    from mmengine.structures import PixelData
    cfg = small(PANOPTIC, data, tmp_path)
    cfg.val_evaluator.seg_prefix = (
        f'{data["mmdet"]}/annotations/panoptic_val2017')
    runner = Runner.from_cfg(cfg)
    found = runner.val()
    assert 0 <= found['coco_panoptic/PQ'] < 50
    assert {'coco_panoptic/PQ_th', 'coco_panoptic/PQ_st'} < found.keys()

    def predict(self, inputs, samples, rescale=True):
        """The truth, with the second image's object moved by its half."""
        for sample in samples:
            truth = torch.full((1, SIZE, SIZE), 80)
            left = 8 + 20 * (sample.img_id == 1)
            truth[:, 8:40, left:left + 40] = 1000 + sample.img_id
            sample.pred_panoptic_seg = PixelData(sem_seg=truth)
        return samples

    monkeypatch.setattr(PanopticFPN, 'predict', predict)
    found = runner.val()
    # One object is found, that of another class too far away. The ground is
    # found twice: its 2816 and 2944 pixels have 2304 in common.
    assert found['coco_panoptic/PQ_th'] == pytest.approx(50)
    assert found['coco_panoptic/PQ_st'] == pytest.approx(
        50 * (1 + 2304 / (2816 + 2944 - 2304)))


def checkpoint_of(name, data, folder, encoder=None):
    """The checkpoint that a run writes after a step."""
    cfg = small(name, data, folder)
    if encoder:
        cfg.model.backbone.init_cfg = dict(
            type='PretrainedEncoder', checkpoint=encoder)
    runner = take_a_step(cfg)
    runner.save_checkpoint(str(folder), 'step.pth')
    return str(folder / 'step.pth')


def encoder_of(model):
    return {name: tensor.clone()
            for name, tensor in model.backbone.state_dict().items()}


PRETRAINED = ['qbheat/qbheat_mf-285m_8xb128-amp-coslr-100e_in1k.py',
              'mocov2/mocov2_mf-285m_8xb32-coslr-200e_in1k.py',
              'mobile_former/mf-285m_8xb128-tran1-coslr-450e_in1k.py']
LINEAR = 'qbheat/benchmarks/mf-285m_8xb512-linear-coslr-90e_in1k.py'
TRAN1 = 'qbheat/benchmarks/mf-285m_8xb512-tran1-coslr-200e_in1k.py'
TUNED1 = 'qbheat/benchmarks/mf-285m_8xb64-ft-tran1-coslr-200e_in1k.py'
TUNED4 = 'qbheat/benchmarks/mf-285m_8xb64-ft-tran4-coslr-200e_in1k.py'
DETECTOR = 'qbheat/coco/mf-dec-211_mf-285m_frozen_8xb2-500e_coco.py'


@pytest.fixture(scope='session')
def pretrained(data, tmp_path_factory):
    """A checkpoint of each way of pre-training."""
    # The runners of this fixture outlive one test.
    return {name: checkpoint_of(name, data, tmp_path_factory.mktemp('pre'))
            for name in PRETRAINED}


@pytest.mark.parametrize('origin', PRETRAINED)
@pytest.mark.parametrize('target', [LINEAR, TUNED4, DETECTOR])
def test_an_encoder_serves_every_task(target, origin, pretrained, data,
                                      tmp_path):
    file = pretrained[origin]
    saved = read(file)['state_dict']
    cfg = small(target, data, tmp_path)
    cfg.model.backbone.init_cfg = dict(load(target).model.backbone.init_cfg,
                                       checkpoint=file)
    if target == TUNED4:
        cfg.optim_wrapper.optimizer.lr = 0.  # leave what was loaded
        cfg.model.backbone.norm_eval = True
    encoder = encoder_of(take_a_step(cfg).model)
    for name, tensor in encoder.items():
        assert torch.equal(tensor, saved[f'backbone.{name}']), name
    if 'mocov2' in origin:  # not the momentum encoder, which is another
        copy = saved['encoder_k.module.0.stem.1.running_mean']
        assert not torch.equal(encoder['stem.1.running_mean'], copy)


def test_fine_tuning_goes_on_from_the_probe(pretrained, data, tmp_path):
    probe = checkpoint_of(TRAN1, data, tmp_path / 'probe',
                          pretrained[PRETRAINED[0]])
    cfg = small(TUNED1, data, tmp_path / 'tuned')
    cfg.custom_hooks = load(TUNED1).custom_hooks
    with pytest.raises(UserError, match='load_from=FILE'):
        Runner.from_cfg(cfg).train()
    cfg.load_from = probe
    cfg.optim_wrapper.optimizer.lr = 0.
    model = take_a_step(cfg).model
    saved = read(probe)['state_dict']
    for name, parameter in model.named_parameters():
        assert parameter.requires_grad
        assert torch.equal(parameter, saved[name]), name


def test_fine_tuning_refuses_a_checkpoint_without_decoder(
        pretrained, data, tmp_path):
    cfg = small(TUNED1, data, tmp_path)
    cfg.load_from = pretrained[PRETRAINED[0]]
    with pytest.raises(UserError, match='does not fit'):
        Runner.from_cfg(cfg).train()


def test_a_probe_refuses_to_start_without_an_encoder(data, tmp_path):
    cfg = small(LINEAR, data, tmp_path)
    cfg.model.backbone.init_cfg = load(LINEAR).model.backbone.init_cfg
    with pytest.raises(UserError, match='init_cfg.checkpoint=FILE'):
        Runner.from_cfg(cfg).train()
