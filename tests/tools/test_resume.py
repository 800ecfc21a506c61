# Copyright (c) QB-Heat MM authors. All rights reserved.
"""tools/train.py resumes a killed run."""
import os
import runpy
import shutil
import signal
import subprocess
import sys

import pytest
import torch

from qbheat_mm.config.reading import read_config
from qbheat_mm.errors import UserError
from qbheat_mm.trained.safe_load import safe_load

from ..helpers import train_and_die
from ..helpers.tools import ROOT, run_tool


def test_a_killed_and_resumed_run_ends_like_an_uninterrupted_one(
        tmp_path, classifier_config, trained_classifier, capfd):
    command = (classifier_config, '--resume', '--work-dir', tmp_path,
               '--cfg-options', 'train_dataloader.num_workers=2')
    killed = subprocess.run(
        [sys.executable, train_and_die.__file__, *map(str, command)],
        env=dict(os.environ, OMP_NUM_THREADS='1'))
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / 'epoch_2.pth').exists()
    assert not (tmp_path / 'epoch_3.pth').exists()
    run_tool('train.py', *command)
    assert 'resumed epoch: 2' in ''.join(capfd.readouterr())

    # The uninterrupted run had no workers.
    whole, ours = (
        safe_load(str(folder / 'epoch_4.pth'))
        for folder in (trained_classifier, tmp_path))
    assert whole['state_dict'].keys() == ours['state_dict'].keys()
    for name, tensor in whole['state_dict'].items():
        assert torch.equal(tensor, ours['state_dict'][name]), name
    for a, b in zip(whole['optimizer']['state'].values(),
                    ours['optimizer']['state'].values()):
        assert torch.equal(a['momentum_buffer'], b['momentum_buffer'])


def apply(monkeypatch, *arguments):
    """Return the config that a command trains."""
    tool = runpy.run_path(str(ROOT / 'tools/train.py'), run_name='tool')
    monkeypatch.setattr(sys, 'argv', ['train.py', *map(str, arguments)])
    args = tool['parse_args']()
    cfg = read_config(args.config, args.cfg_options)
    tool['apply_arguments'](cfg, args)
    return cfg


def test_load_from_is_used_until_there_is_something_to_resume(
        tmp_path, monkeypatch, classifier_config, trained_classifier):
    """So that the same command starts and resumes a run."""
    weights = str(trained_classifier / 'epoch_4.pth')

    def settings(*resume, load_from=weights):
        cfg = apply(monkeypatch, classifier_config, '--work-dir',
                    tmp_path / 'work', *resume, '--cfg-options',
                    f'load_from={load_from}')
        return bool(cfg.resume), cfg.load_from

    assert settings() == settings('--resume') == (False, weights)
    assert settings(load_from=trained_classifier) == (False, weights)
    assert settings('--resume', weights) == (True, weights)
    shutil.copytree(trained_classifier, tmp_path / 'work')
    assert settings('--resume') == (True, None)
    assert settings() == (False, weights)


def test_a_work_folder_that_was_moved_is_not_trained_anew(
        tmp_path, monkeypatch, trained_classifier):
    moved = tmp_path / 'moved'
    shutil.copytree(trained_classifier, moved)
    config, = moved.glob('*.py')
    text = config.read_text()
    config.write_text(text.replace(str(trained_classifier), '/gone'))
    with pytest.raises(UserError, match=f'add --work-dir {moved}$'):
        apply(monkeypatch, config, '--resume')
    for folder in (moved, tmp_path / 'new'):
        cfg = apply(monkeypatch, config, '--resume', '--work-dir', folder)
        assert cfg.resume and cfg.work_dir == str(folder)
