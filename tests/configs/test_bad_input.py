# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Wrong settings and checkpoints are told in one line by tools/train.py."""
import runpy
import sys
from pathlib import Path

import pytest
import torch

from qbheat_mm.models import MobileFormer

from .shipped import ROOT, write_imagenet

TRAIN = Path(__file__).parents[2] / 'tools/train.py'
PRETRAIN = 'qbheat/qbheat_mf-285m_8xb128-amp-coslr-100e_in1k.py'
LINEAR = 'qbheat/benchmarks/mf-285m_8xb512-linear-coslr-90e_in1k.py'


@pytest.fixture(scope='session')
def imagenet(tmp_path_factory):
    root = tmp_path_factory.mktemp('imagenet')
    write_imagenet(root)
    return root


@pytest.fixture
def refusal(imagenet, tmp_path, monkeypatch):
    """The line with which training of a configuration ends."""

    def refuse(name, *options):
        loaders = ('train', 'val') if name == LINEAR else ('train', )
        monkeypatch.setattr(sys, 'argv', [
            'train.py', str(ROOT / name), '--no-amp', '--work-dir',
            str(tmp_path / 'work'), '--cfg-options', *options,
            *(f'{part}_dataloader.{setting}' for part in loaders for setting
              in ('num_workers=0', 'batch_size=2',
                  f'dataset.data_root={imagenet}'))
        ])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(TRAIN), run_name='__main__')
        line = str(end.value)
        assert line.startswith('error: ') and '\n' not in line
        return line

    return refuse


def test_an_unknown_arch_lists_the_known(refusal):
    line = refusal(PRETRAIN, 'model.backbone.arch=mf-285')
    assert "arch='mf-285' is unknown" in line
    for arch in ('mf-285m', 'mf-1.0g', 'mf-3.7g', 'mf-26m', 'mf-508m'):
        assert arch in line


def test_a_wrong_number_of_models(refusal):
    line = refusal(PRETRAIN, 'model.num_models=3')
    assert 'num_models=3 is not one of [2, 4, 8]' in line


def test_a_wrong_position(refusal):
    line = refusal(PRETRAIN, 'model.position=edge')
    assert "position='edge' is not one of" in line and "'corner'" in line


def encoder(arch, change=lambda state: state):
    state = MobileFormer(arch).state_dict()
    change(state)
    return dict(state_dict={f'backbone.{k}': v for k, v in state.items()})


def test_a_cut_checkpoint(refusal, tmp_path):
    file = tmp_path / 'cut.pth'
    torch.save(encoder('mf-285m'), file)
    file.write_bytes(file.read_bytes()[:1000000])
    line = refusal(LINEAR, f'model.backbone.init_cfg.checkpoint={file}')
    assert f"checkpoint '{file}' cannot be read: the file is cut" in line


def test_a_checkpoint_of_another_network(refusal, tmp_path):
    file = tmp_path / 'other.pth'
    torch.save(encoder('mf-96m'), file)
    line = refusal(LINEAR, f'model.backbone.init_cfg.checkpoint={file}')
    assert 'does not fit the encoder MobileFormer' in line
    assert 'stages.' in line


def test_a_checkpoint_with_nan(refusal, tmp_path):
    file = tmp_path / 'nan.pth'
    torch.save(
        encoder('mf-285m',
                lambda state: state['tokens'].fill_(float('nan'))), file)
    line = refusal(LINEAR, f'model.backbone.init_cfg.checkpoint={file}')
    assert 'NaN' in line and 'tokens' in line and str(file) in line


def test_a_checkpoint_that_is_not_there(refusal):
    line = refusal(LINEAR, 'model.backbone.init_cfg.checkpoint=nowhere.pth')
    assert 'nowhere.pth' in line
