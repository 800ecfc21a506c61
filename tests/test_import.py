# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Importing the package adds to other packages and replaces nothing."""
import subprocess
import sys

import pytest

SCRIPT = """
import importlib, sys, types

# mmpretrain alone can't import these beside a recent transformers.
from mmpretrain.utils import dependency
dependency.WITH_MULTIMODAL = False

PACKAGES = ('torch', 'mmengine', 'mmcv', 'mmpretrain', 'mmdet', 'numpy', 'cv2')
for name in ('mmengine.runner', 'mmcv', 'mmpretrain.apis', 'mmpretrain.models',
             'mmpretrain.datasets', 'mmdet.apis', 'mmdet.datasets',
             'mmdet.models'):
    importlib.import_module(name)
from mmengine.runner.checkpoint import CheckpointLoader

def callables():
    found = {('scheme', key): loader
             for key, loader in CheckpointLoader._schemes.items()}
    for name, module in list(sys.modules.items()):
        if name.split('.')[0] not in PACKAGES or not isinstance(
                module, types.ModuleType):
            continue
        for key, value in list(vars(module).items()):
            if callable(value):
                found[name, key] = value
            if isinstance(value, type) and value.__module__ == name:
                found.update({
                    (name, key, attribute): method
                    for attribute, method in list(vars(value).items())
                    if callable(method) or isinstance(
                        method, (classmethod, staticmethod, property))})
    return found

before = callables()
import qbheat_mm
print(sum(name.startswith('qbheat_mm') for name in sys.modules))
import qbheat_mm.detection
after = callables()
assert len(before) > 10000
print([key for key in after if key[0] == 'scheme' and key not in before]
      + [key for key in before if after.get(key) is not before[key]])
"""


def run(script, **kwargs):
    return subprocess.run([sys.executable, '-W', 'ignore', '-c', script],
                          capture_output=True, text=True, **kwargs)


HEAD = """
import qbheat_mm.detection
from mmdet.registry import MODELS
from qbheat_mm.apis import find_config
from qbheat_mm.config.reading import read_config
cfg = read_config(find_config('gfl_mf-285m_own-data'))
MODELS.build(cfg.model.bbox_head)

import numpy as np
from mmengine.visualization import Visualizer
picture = Visualizer(image=np.zeros((8, 8, 3), np.uint8))
picture.draw_bboxes(np.array([0., 0., 8., 8.]))  # the whole image
"""


def test_detectors_are_built_and_drawn_without_warnings():
    pytest.importorskip('mmcv.ops')
    done = subprocess.run([sys.executable, '-c', HEAD], capture_output=True,
                          text=True, check=True)
    for text in ('num_anchors', 'out of bounds'):
        assert text not in done.stderr


def test_few_modules_are_loaded_and_nothing_is_replaced():
    pytest.importorskip('mmdet')
    *_, modules, replaced = run(SCRIPT, check=True).stdout.splitlines()
    assert int(modules) <= 80 and replaced == '[]'


def test_neither_detection_nor_plots_nor_language_models(tmp_path):
    """Here with a transformers that is too new for mmpretrain's models.

    Where it works, mmengine imports one of its optimizers.
    """
    info = tmp_path / 'transformers-5.0.0.dist-info'
    info.mkdir()
    (info / 'METADATA').write_text('Name: transformers\nVersion: 5.0.0\n')
    (tmp_path / 'transformers.py').write_text('raise ImportError("broken")\n')
    result = run(
        'import sys, qbheat_mm\n'
        'print({"mmdet", "mmcv.ops", "matplotlib", "mmpretrain.models"}\n'
        '      & {*sys.modules})\n'
        'import mmpretrain.models\n', cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout == 'set()\n'


def test_loading_an_encoder_needs_neither_detectors_nor_plots():
    result = run(
        'import sys\n'
        'from qbheat_mm.apis import load_encoder\n'
        'print({"mmdet", "mmcv.ops", "matplotlib", "scipy"} & {*sys.modules})',
        check=True)
    assert result.stdout == 'set()\n'


def test_a_broken_toolbox_is_named_with_the_way_out(tmp_path):
    (tmp_path / 'torch.py').write_text('raise OSError("broken")\n')
    result = run('import qbheat_mm', cwd=tmp_path)
    last = result.stderr.strip().splitlines()[-1]
    assert result.returncode != 0 and 'OSError: broken' in last
    assert 'torch' in last and 'python -m qbheat_mm.check_env' in last
