# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A run that is killed and resumed, by the real tool."""
import runpy
import shutil
import sys
from pathlib import Path

import torch

from qbheat_mm.engine.checkpoint import read

ROOT = Path(__file__).parents[2]
# Kills the process in the middle of the third epoch, as a crash would.
KILL_HOOK = """
import os
import signal

from mmengine.hooks import Hook
from mmengine.registry import HOOKS


@HOOKS.register_module()
class KillHook(Hook):

    def before_train_iter(self, runner, batch_idx, data_batch=None):
        if runner.epoch == 2 and batch_idx == 1:
            os.kill(os.getpid(), signal.SIGKILL)
"""
KILLED_CONFIG = """
_base_ = './classifier.py'
custom_imports = dict(imports=['qbheat_mm', 'kill_hook'],
                      allow_failed_imports=False)
custom_hooks = [dict(type='KillHook')]
"""


def test_kill_and_resume_ends_like_a_run_never_stopped(
        tmp_path, tool, data, classifier_config, trained_classifier):
    (tmp_path / 'kill_hook.py').write_text(KILL_HOOK)
    (data / 'killed.py').write_text(KILLED_CONFIG)
    options = ('--work-dir', tmp_path, '--cfg-options',
               'train_dataloader.num_workers=2')
    killed = tool('train.py', data / 'killed.py', *options, ok=False,
                  path=tmp_path)
    assert 'Saving checkpoint at 2 epochs' in killed
    assert not (tmp_path / 'epoch_3.pth').exists()

    resumed = tool('train.py', classifier_config, '--resume', *options)
    assert 'resumed epoch: 2' in resumed

    # The run that was never stopped had no workers at that.
    whole, ours = (
        read(str(folder / 'epoch_4.pth'))
        for folder in (trained_classifier, tmp_path))
    assert whole['state_dict'].keys() == ours['state_dict'].keys()
    for name, tensor in whole['state_dict'].items():
        assert torch.equal(tensor, ours['state_dict'][name]), name
    for a, b in zip(whole['optimizer']['state'].values(),
                    ours['optimizer']['state'].values()):
        assert torch.equal(a['momentum_buffer'], b['momentum_buffer'])


def test_weights_to_begin_with_count_until_there_is_something_to_resume(
        tmp_path, monkeypatch, classifier_config, trained_classifier):
    """So that one command can be submitted again, as it is."""
    tool = runpy.run_path(str(ROOT / 'tools/train.py'), run_name='tool')
    weights = str(trained_classifier / 'epoch_4.pth')

    def settings(*resume):
        monkeypatch.setattr(sys, 'argv', [
            'train.py', str(classifier_config), '--work-dir',
            str(tmp_path / 'work'), *resume, '--cfg-options',
            f'load_from={weights}'])
        args = tool['parse_args']()
        cfg = tool['read_config'](args.config, args.cfg_options)
        tool['apply_arguments'](cfg, args)
        return bool(cfg.resume), cfg.load_from

    assert settings() == settings('--resume') == (False, weights)
    assert settings('--resume', weights) == (True, weights)
    shutil.copytree(trained_classifier, tmp_path / 'work')
    assert settings('--resume') == (True, None)
    assert settings() == (False, weights)
