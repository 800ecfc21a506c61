# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Text out of a checkpoint is read; what could run code is found."""
from pathlib import Path

import pytest
from mmengine.config import Config

from qbheat_mm.config_text import find_obstacle, read_settings

CONFIGS = Path(__file__).parents[2] / 'configs'


@pytest.mark.parametrize('name', [
    'qbheat/qbheat_mf-285m_8xb128-amp-coslr-100e_in1k.py',
    'qbheat/benchmarks/mf-285m_8xb512-tran1-coslr-200e_in1k.py',
])
def test_what_mmengine_writes_is_plain_and_read_as_it_is(name):
    cfg = Config.fromfile(CONFIGS / name)
    assert find_obstacle(cfg.pretty_text) is None
    settings = read_settings(cfg.pretty_text)
    written = Config.fromstring(cfg.pretty_text, '.py')
    assert settings['model'] == written.model.to_dict()
    assert settings['optim_wrapper'] == written.optim_wrapper.to_dict()


@pytest.mark.parametrize('text', [
    'import os', 'from os import system', "open('flag', 'w')",
    "a = open('flag', 'w')", "a = [dict(b=open('flag', 'w'))]",
    "a = dict(b=1, **open('flag', 'w'))", "a = dict([('b', 1)])",
    "a = f'{open(1)}'", 'a = [x for x in ()]', 'a = lambda: 1',
    'a = b = 1', 'a: int = 1', 'a += 1', 'a.b = 1', 'del a',
    'def f(): pass', 'class A: pass', 'if 1: a = 1', 'with a: b = 1',
    'a = 9 ** 9 ** 9', 'a = "x" * 10 ** 12', 'a = b.c', 'a = b[0]',
    "_base_ = 'other.py'", '_base_ = [open("flag", "w")]',
    "a = '{{$NOT_SET:x}}'", "a = ['\\{{$X:', ', open(1), ', '}}']",
    "a = ['\\{{$NOT_SET:',',}}open(1)#'\n]",
    'a = 1 # \r import os', 'a = (', 'a = 1\0', 'a = "\ud800"', 5, None,
    '[' * 9999 + ']' * 9999,
    "model = dict(type='os.system', command='touch flag')",
    "model = {'type': 'subprocess.Popen'}",
    "model = dict(type='mmengine.load', file='x.pkl')",
    "model = dict(type='mmengine.utils.package_utils.call_command')",
    "model = dict(type='mmengine.utils.package_utils.subprocess.Popen')",
    "model = dict(type='torch.nn.modules.module.torch.load')",
    "custom_imports = dict(imports=['this_module_is_not_imported'])",
    "custom_imports = ['antigravity']",
])
def test_what_could_run_is_found(text):
    obstacle = find_obstacle(text)
    assert obstacle and '\n' not in obstacle


@pytest.mark.parametrize('text', [
    '', "a = [1, -2.5, True, None, 'x', b'y', (), {}, {'b': {1, 2}}, 1j]",
    "model = dict(type='mmdet.RetinaNet', backbone=dict(type='ResNet'))",
    "model = dict(type='mmengine.model.BaseModel')",
    "optimizer = dict(type='torch.optim.adamw.AdamW')",
    "custom_imports = dict(imports=['qbheat_mm', 'mmdet.models'])",
])
def test_plain_text_passes(text):
    assert find_obstacle(text) is None


def test_the_rest_of_a_text_is_read_all_the_same():
    text = "root = Path('data')\nmodel = dict(depth=18, width=inf, a=f(1))"
    assert read_settings(text) == dict(
        root=None, model=dict(depth=18, width=float('inf'), a=None))
