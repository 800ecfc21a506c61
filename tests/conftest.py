# Copyright (c) QB-Heat MM authors. All rights reserved.
"""No test sees what another has left behind; those of detection need mmdet.

Where the toolboxes are there without mmdet (the extra ``pretrain``), a test
that fails for want of it is skipped and says so. That pre-training, probing
and analysis need no mmdet is held by ``test_without_mmdet.py``, everywhere.
"""
import functools
import gc
import importlib
import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace

import mmengine.config.utils
import pytest
import torch
from hypothesis import settings
from mmengine.runner import loops
from mmengine.utils import ManagerMixin

WITHOUT_MMDET = importlib.util.find_spec('mmdet') is None
WANT = re.compile(r"No module named '?(mmdet|mmcv\._ext|mim)\b"
                  r'|mmdet is not installed')  # a base of its configs
IMPORTS_MMDET = re.compile(r'^(from|import) mmdet\b', re.M)


# The same examples every time, however slow the machine.
settings.register_profile('steady', deadline=None, derandomize=True)
settings.load_profile('steady')


def pytest_report_header():
    return 'mmdet is missing: its tests are skipped' if WITHOUT_MMDET else []


def pytest_ignore_collect(collection_path: Path):
    """Leave out folders whose common parts cannot be imported."""
    common = collection_path / 'conftest.py'
    if WITHOUT_MMDET and common.is_file() and IMPORTS_MMDET.search(
            common.read_text(encoding='utf-8')):
        return True
    return None


def _skip_for_want_of_mmdet(report, path) -> None:
    want = WITHOUT_MMDET and report.failed and WANT.search(report.longreprtext)
    if want:
        report.outcome = 'skipped'
        report.longrepr = (str(path), 0, f'Skipped: {want.group()}')


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    _skip_for_want_of_mmdet(report, collector.path)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    _skip_for_want_of_mmdet(report, item.path)
    return report


def _managers(kind: type = ManagerMixin) -> list[type]:
    """Every class whose instances mmengine keeps by name."""
    return [kind] + [m for sub in kind.__subclasses__()
                     for m in _managers(sub)]


def _forget() -> None:
    for manager in _managers():
        manager._instance_dict.clear()


# mmengine reads all of a toolbox's metafiles again for each base that is
# taken from it, and the shipped configurations are read thousands of times.
mmengine.config.utils.load = functools.cache(mmengine.config.utils.load)
# Every runner writes its configuration three times, and lays the lines out
# anew each time, which takes most of a short run.
mmengine.config.config.FormatCode = lambda text, **kwargs: (text, True)
# Loops that count iterations wait for two seconds between passes.
loops.time = SimpleNamespace(sleep=lambda seconds: None)


@pytest.fixture(autouse=True, scope='module')
def spare_the_garbage_collector():
    """Let it pass over what modules and earlier tests hold for good.

    mmengine calls it for every data set that is built; with all toolboxes
    imported that takes a second.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def forget_other_runs():
    """Drop mmengine's global scopes, visualizers and logs of earlier runs.

    They are kept by names that end in the second of a run's start: a test
    that begins in the same second as another would get the other's
    visualizer, and one that names no scope would get the other's scope.
    """
    yield
    _forget()


@pytest.fixture(scope='session')
def forget():
    """A function that does so between two runs of one test."""
    return _forget


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
