# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Bad input ends a tool with a last line that names it."""
import sys
import traceback

import pytest
import torch

from ..helpers.tools import run_tool


@pytest.fixture
def last_line(monkeypatch, tmp_path):
    """Run a tool in this process; return the last line that it prints."""

    def call(name, *args):
        monkeypatch.chdir(tmp_path)
        try:
            run_tool(name, *args)
        except SystemExit as end:
            assert end.code not in (0, None)
            return str(end.code)
        except Exception as error:
            return ''.join(traceback.format_exception(error)).strip(
                ).splitlines()[-1]
        pytest.fail('no error')

    return call


@pytest.mark.parametrize('option, words', [
    ('train_dataloader.dataset.data_root=nowhere', 'nowhere'),
    ('train_dataloader.batch_size.x=3', 'train_dataloader.batch_size.x'),
    ('train_dataloader.dataset.pipeline=[]',
     'train_dataloader.dataset.pipeline'),
    ('train_dataloader.dataset.pipeline.1.scale=big', 'scale=big'),
    ('train_dataloader=None', 'train_dataloader'),
    ('model.backbone.type=RestNet', 'RestNet'),
    ('model.backbone.depth=19', 'depth'),
    ('model.head.in_channels=33', 'in_channels=33'),
    ('optim_wrapper.optimizer.type=AdamWW', 'AdamWW'),
    ('default_hooks.checkpoint.type=Hok', 'Hok'),
    ('model.backbone.init_cfg.type=PretrainedEncoder', 'encoder=FILE'),
    ('load_from=nowhere.pth', 'nowhere.pth')])
@pytest.mark.skipif(sys.version_info < (3, 11), reason='has no notes')
def test_settings(last_line, classifier_config, option, words):
    assert words in last_line('train.py', classifier_config, '--cfg-options',
                              option)


@pytest.mark.parametrize('arguments, words', [
    (['train.py', 'nowhere.py'], 'nowhere.py'),
    (['train.py', 'CONFIG', '--resume', 'none.pth'], 'none.pth'),
    (['train.py', 'CONFIG', '--auto-scale-lr'],
     'auto_scale_lr.base_batch_size'),
    (['test.py', 'CONFIG', 'none.pth'], 'none.pth'),
    (['test.py', 'CONFIG', 'FILE', '--out', 'a.txt'], 'a.txt'),
    (['test.py', 'CONFIG', 'FILE'], 'FILE')])
@pytest.mark.skipif(sys.version_info < (3, 11), reason='has no notes')
def test_arguments(last_line, classifier_config, tmp_path, arguments, words):
    file = tmp_path / 'a.pth'
    torch.save(dict(state_dict={'backbone.conv1.weight': torch.rand(1)}), file)
    given = dict(CONFIG=str(classifier_config), FILE=str(file))
    line = last_line(*(given.get(word, word) for word in arguments))
    assert given.get(words, words) in line


@pytest.mark.skipif(torch.cuda.is_available(), reason='needs no GPU')
def test_mixed_precision_without_a_gpu(last_line, classifier_config):
    assert '--no-amp' in last_line('train.py', classifier_config, '--amp')
