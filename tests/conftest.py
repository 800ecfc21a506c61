# Copyright (c) QB-Heat MM authors. All rights reserved.
"""No test sees what another has left behind."""
import functools
import importlib

import pytest
import torch
from mmengine.utils import ManagerMixin


def _managers(kind: type = ManagerMixin) -> list[type]:
    """Every class whose instances mmengine keeps by name."""
    return [kind] + [m for sub in kind.__subclasses__()
                     for m in _managers(sub)]


@pytest.fixture(autouse=True)
def forget_other_runs():
    """Drop mmengine's global scopes, visualizers and logs of earlier runs.

    They are kept by names that end in the second of a run's start: a test
    that begins in the same second as another would get the other's
    visualizer, and one that names no scope would get the other's scope.
    """
    yield
    for manager in _managers():
        manager._instance_dict.clear()


@pytest.fixture
def amp_without_gpu(monkeypatch):
    """Let mmengine's ``AmpOptimWrapper`` run where there is no GPU.

    It is the real one, with autocast to bfloat16 and a loss scaler that
    looks for infinities; only its question for a GPU is answered for it, and
    the scaler is the one for the CPU.
    """
    if torch.cuda.is_available():
        return
    module = importlib.import_module(
        'mmengine.optim.optimizer.amp_optimizer_wrapper')
    monkeypatch.setattr(module, 'is_cuda_available', lambda: True)
    if hasattr(torch.amp, 'GradScaler'):  # from torch 2.3 on
        monkeypatch.setattr(module, 'GradScaler', functools.partial(
            torch.amp.GradScaler, 'cpu'))
