# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Checkpoints are read without executing anything in them."""
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.logging import HistoryBuffer
from torch import nn

from qbheat_mm.errors import UserError
from qbheat_mm.trained.checkpoint import Checkpoint
from qbheat_mm.trained.fit import mismatch
from qbheat_mm.trained.safe_load import safe_load
from qbheat_mm.utils.settings import backbone_name


def save(path, content):
    torch.save(content, path)
    return str(path)


class Code:

    def __reduce__(self):
        return os.mkdir, ('executed', )


def test_checkpoints_of_mmengine_are_read(tmp_path):
    content = dict(state_dict=dict(a=torch.ones(2)), message_hub=dict(
        log_scalars=dict(loss=HistoryBuffer([1., 2.], [1, 1])),
        runtime_info=dict(best=np.float64(3), order=np.arange(2))))
    with torch.serialization.safe_globals([HistoryBuffer]):
        pass  # as the maintained fork does; this removes it
    found = safe_load(save(tmp_path / 'a.pth', content))
    assert found['message_hub']['log_scalars']['loss'].mean() == 1.5


@pytest.mark.parametrize('content', [
    b'', b'<html></html>', pickle.dumps([1]), pickle.dumps(Code()),
    dict(state_dict={}, x=Code()), dict(x=eval), [torch.ones(2)]])
def test_other_content_is_refused_and_not_run(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    if isinstance(content, bytes):
        Path('a.pth').write_bytes(content)
    else:
        save('a.pth', content)
    with pytest.raises(UserError, match="'a.pth'"):
        safe_load('a.pth')
    assert not Path('executed').exists()


@pytest.mark.parametrize('damage', [
    lambda content: content[:-300],
    lambda content: content.replace(b'\x00\x00\x80\x3f', b'\x00\x00\x80\x40')])
def test_damaged_files_are_refused(tmp_path, damage):
    path = tmp_path / 'a.pth'
    save(path, dict(state_dict=dict(a=torch.ones(1000))))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UserError, match='damaged'):
        safe_load(path)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FileNotFoundError, match='nowhere.pth') as caught:
        safe_load(tmp_path / 'nowhere.pth')
    assert isinstance(caught.value, UserError)  # tools print one line
    with pytest.raises(UserError, match='is not a file'):
        safe_load(tmp_path)
    with pytest.raises(UserError, match='http://localhost:9/x.pth'):
        safe_load('http://localhost:9/x.pth')


TEXT = """
model = dict(
    type='QBHeat', data_preprocessor=dict(
        mean=[1., 2, -3], std=[4, 5, 6], to_rgb=True),
    backbone={'type': 'MobileFormer', 'arch': 'mf-285m'})
import os
os.mkdir('executed')
value = os.mkdir('executed')
"""


def test_a_stored_config_is_parsed_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained = Checkpoint(dict(state_dict={}, meta=dict(cfg=TEXT)))
    assert trained.config['value'] is None
    assert backbone_name(trained.config) == "MobileFormer(arch='mf-285m')"
    found = trained.normalization
    assert (found.mean, found.std, found.rgb) == (
        (1, 2, -3), (4, 5, 6), True)
    assert not (tmp_path / 'executed').exists()
    for text in (None, 3, 'x = (', 'model = 3'):
        assert Checkpoint(dict(meta=dict(cfg=text))).normalization is None


@pytest.mark.parametrize('change', [
    dict(std='[0, 1, 1]'), dict(mean='[]'), dict(channel_order='GBR')])
def test_an_impossible_normalization_is_none(change):
    meta = dict(mean='[1, 2, 3]', std='[4, 5, 6]', channel_order='RGB',
                backbone='{}')
    assert Checkpoint(dict(meta=meta)).normalization is not None
    meta |= change
    assert Checkpoint(dict(meta=meta)).normalization is None


def net():
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))


@pytest.mark.parametrize('change, words', [
    (lambda s: s.pop('0.bias'), '1 tensors are missing'),
    (lambda s: s.update(extra=torch.ones(1)), 'not part of it'),
    (lambda s: s.update({'0.weight': s['0.weight'].T}), 'shape'),
    (lambda s: s.update({'0.bias': s['0.bias'].to(torch.int8)}), 'int8'),
    (lambda s: s.update({'0.bias': [1.]}), 'not a dense tensor'),
    (lambda s: s.update({'0.bias': s['0.bias'].to_sparse()}), 'not a dense'),
    (lambda s: s['0.bias'].fill_(float('nan')), 'NaN'),
    (lambda s: s['1.running_var'].fill_(-1), 'negative variance')])
def test_weights_that_do_not_fit_are_described(change, words):
    state = net().state_dict()
    found = {name: value.clone() for name, value in state.items()}
    change(found)
    assert words in mismatch(state, found)


def test_weights_that_fit():
    state = net().state_dict()
    found = {name: value.double() for name, value in state.items()
             if 'num_batches' not in name}
    assert not mismatch(state, found)


def test_a_model_is_loaded_completely_or_not_at_all():
    model, other = net(), net()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    broken = {k: v for k, v in other.state_dict().items() if k != '0.bias'}
    with pytest.raises(UserError, match="'a.pth' does not fit Sequential"):
        Checkpoint(broken, 'a.pth').load_model(model)
    assert all(torch.equal(v, before[k])
               for k, v in model.state_dict().items())
    deeper = {**other.state_dict(), '0.conv.weight': torch.ones(1)}
    with pytest.raises(UserError, match='not part of it .0.conv.weight'):
        Checkpoint(deeper, 'a.pth').load_model(model)
    further = {**other.state_dict(), 'decoder.weight': torch.ones(1)}
    Checkpoint(dict(state_dict=further)).load_model(model)
    assert torch.equal(model[0].weight, other[0].weight)
