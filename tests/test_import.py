# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Importing the package adds to other packages and replaces nothing."""
import subprocess
import sys

SCRIPT = """
import importlib, sys, types

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
import qbheat_mm, qbheat_mm.detection
after = callables()
print([key for key in before
       if key in after and after[key] is not before[key]])
assert len(before) > 10000
"""
SIZE = ('import sys, qbheat_mm; '
        "print(sum(name.startswith('qbheat_mm') for name in sys.modules))")


def run(script: str) -> str:
    return subprocess.run([sys.executable, '-W', 'ignore', '-c', script],
                          capture_output=True, text=True,
                          check=True).stdout.strip()


def test_nothing_is_replaced():
    assert run(SCRIPT).splitlines()[-1] == '[]'


def test_few_modules_are_loaded():
    assert int(run(SIZE)) <= 90
