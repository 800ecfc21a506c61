"""Fine-tuning that was interrupted ends like fine-tuning that was not."""
import copy

import pytest
import torch
from mmengine.config import Config
from mmengine.hooks import Hook

from qbheat_mm.engine import AutoScaleRunner
from qbheat_mm.engine.checkpoint import read

from .conftest import CONFIGS


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
