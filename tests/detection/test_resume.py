"""Fine-tuning that was interrupted ends like fine-tuning that was not."""
import copy
import os

import pytest
import torch
from mmengine.config import Config
from mmengine.hooks import Hook

from qbheat_mm.engine import AutoScaleRunner
from qbheat_mm.engine.checkpoint import read
from qbheat_mm.errors import UserError

from .conftest import CLASSES, CONFIGS, write_coco


class Interruption(Exception):
    """Ctrl-C, a crash, the end of a cluster's time."""


class InterruptHook(Hook):

    def before_train_iter(self, runner, batch_idx, data_batch=None):
        if (runner.epoch, batch_idx) == (1, 1):
            raise Interruption


@pytest.fixture
def tuning_config(tiny_config, tmp_path):
    """Fine-tuning from the checkpoint of a frozen run, three epochs."""
    cfg = tiny_config
    cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
    cfg.work_dir = str(tmp_path / 'frozen')
    AutoScaleRunner.from_cfg(cfg).train()
    shipped = Config.fromfile(
        CONFIGS / 'qbheat/coco/mf-dec-211_mf-285m_ft_8xb2-200e_coco.py')
    for key in ('frozen_stages', 'norm_eval', 'init_cfg'):
        cfg.model.backbone[key] = shipped.model.backbone[key]
    cfg.custom_hooks = shipped.custom_hooks
    cfg.optim_wrapper = shipped.optim_wrapper
    cfg.optim_wrapper.optimizer.lr = 1e-3  # so that three epochs change much
    cfg.train_cfg.max_epochs = 3
    # A step of the learning rate after the interruption, as in the last 50.
    cfg.param_scheduler = [
        dict(type='MultiStepLR', by_epoch=True, milestones=[2], gamma=0.1)
    ]
    cfg.load_from = str(tmp_path / 'frozen/epoch_1.pth')
    return cfg


def test_interrupted_and_resumed(tuning_config, tmp_path):
    whole, parts = (copy.deepcopy(tuning_config) for _ in range(2))
    whole.work_dir = str(tmp_path / 'whole')
    AutoScaleRunner.from_cfg(whole).train()

    parts.work_dir = str(tmp_path / 'parts')
    runner = AutoScaleRunner.from_cfg(parts)
    runner.register_hook(InterruptHook())
    with pytest.raises(Interruption):
        runner.train()
    parts.load_from, parts.resume = None, True
    torch.manual_seed(99)  # what another process would begin with
    AutoScaleRunner.from_cfg(parts).train()

    start, whole, parts = (
        read(str(tmp_path / file))
        for file in ('frozen/epoch_1.pth', 'whole/epoch_3.pth',
                     'parts/epoch_3.pth'))
    assert whole['state_dict'].keys() == parts['state_dict'].keys()
    for name, tensor in whole['state_dict'].items():
        assert torch.equal(tensor, parts['state_dict'][name]), name
    # The encoder was trained, too; dropout and flips were on.
    name = 'backbone.conv.1.weight'
    assert not torch.equal(start['state_dict'][name],
                           whole['state_dict'][name])
    for a, b in zip(whole['optimizer']['state'].values(),
                    parts['optimizer']['state'].values()):
        assert torch.equal(a['exp_avg'], b['exp_avg'])


def test_a_frozen_run_is_resumed_without_its_encoder(tiny_config, tmp_path):
    tiny_config.model.backbone.init_cfg = None
    runner = AutoScaleRunner.from_cfg(tiny_config)
    encoder = str(tmp_path / 'encoder.pth')
    torch.save(runner.model.backbone.state_dict(), encoder)
    shipped = Config.fromfile(
        CONFIGS / 'qbheat/coco/mf-dec-211_mf-285m_frozen_8xb2-500e_coco.py')
    tiny_config.model.backbone.init_cfg = dict(
        shipped.model.backbone.init_cfg, checkpoint=encoder)
    tiny_config.work_dir = str(tmp_path / 'frozen')
    AutoScaleRunner.from_cfg(copy.deepcopy(tiny_config)).train()
    saved = read(f'{tiny_config.work_dir}/epoch_1.pth')
    os.remove(encoder)

    tiny_config.model.backbone.init_cfg.checkpoint = None
    tiny_config.train_cfg.max_epochs = 2
    with pytest.raises(UserError, match='no encoder weights'):
        AutoScaleRunner.from_cfg(copy.deepcopy(tiny_config)).train()
    tiny_config.resume = True
    AutoScaleRunner.from_cfg(copy.deepcopy(tiny_config)).train()
    resumed = read(f'{tiny_config.work_dir}/epoch_2.pth')
    for name, tensor in resumed['state_dict'].items():
        if name.startswith('backbone.'):
            assert torch.equal(tensor, saved['state_dict'][name]), name


def test_a_detector_of_other_classes(tiny_config, coco_root):
    cfg = tiny_config
    cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
    AutoScaleRunner.from_cfg(copy.deepcopy(cfg)).train()
    write_coco(coco_root, classes=CLASSES[:2])
    cfg.train_dataloader.dataset.metainfo = dict(classes=CLASSES[:2])
    cfg.model.bbox_head.num_classes = 2
    cfg.load_from = f'{cfg.work_dir}/epoch_1.pth'
    with pytest.raises(UserError, match='cls.*checkpoint_match.allow_missing'):
        AutoScaleRunner.from_cfg(copy.deepcopy(cfg)).train()
    cfg.default_hooks.checkpoint_match.allow_missing = ['bbox_head.']
    AutoScaleRunner.from_cfg(cfg).train()
