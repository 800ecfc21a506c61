# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Import paths of 0.3.0 work for one release more."""
import importlib
import sys

import pytest
import torch

from qbheat_mm import trained


@pytest.mark.parametrize('module, names', [
    ('qbheat_mm.models.layers.normalize', ('Normalization', 'Normalize')),
    ('qbheat_mm.apis', ('Encoder', 'build_encoder', 'load_encoder'))])
def test_moved_names_are_the_same_objects(module, names):
    moved = importlib.import_module(module)
    for name in names:
        assert getattr(moved, name) is getattr(trained, name)


@pytest.mark.parametrize('module', [
    'qbheat_mm.models.layers.normalize', 'qbheat_mm.engine.checkpoint'])
def test_old_modules_name_the_new_one(module):
    sys.modules.pop(module, None)
    with pytest.warns(DeprecationWarning, match='qbheat_mm.trained'):
        importlib.import_module(module)


@pytest.mark.filterwarnings('ignore::DeprecationWarning')
def test_old_functions_read_and_load(tmp_path):
    old = importlib.import_module('qbheat_mm.engine.checkpoint')
    model, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    torch.save(dict(state_dict=model.state_dict()), tmp_path / 'a.pth')
    content = old.read(tmp_path / 'a.pth')
    old.load_strict(other, content, 'a.pth')
    assert torch.equal(other.weight, model.weight)
    assert old.weights(content).keys() == {'weight', 'bias'}
