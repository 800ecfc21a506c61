# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Isolate tests from each other, and skip those of detection without mmdet.

Tests that need mmdet (the extra ``pretrain`` is without it) are marked, lie in
a folder of ``collect_ignore``, or call ``pytest.importorskip``.
``test_without_mmdet.py`` makes sure everywhere that pre-training, probing and
analysis do not need it.
"""
import functools
import gc
import importlib
import importlib.util
from types import SimpleNamespace

import mmengine.config.utils
import numpy as np
import pytest
import torch
from hypothesis import settings
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope
from mmengine.runner import loops
from mmengine.utils import ManagerMixin
from PIL import Image

from .helpers.tools import DRAWN_WORLD

WITHOUT_MMDET = importlib.util.find_spec('mmdet') is None
collect_ignore = ['detection', 'rehearsal'] if WITHOUT_MMDET else []
#: Heads of the drawn world's encoder, by a name.
HEADS = dict(lin='mf-demo_linear', tran='mf-demo_tran1',
             boxes='retinanet_mf-demo_fpn_frozen', dec='mf-dec_mf-demo_frozen',
             masks='mask-rcnn_mf-demo_fpn_frozen')
COLORS = dict(blue=(20, 30, 220), red=(210, 40, 30))

# The same examples every time, however slow the machine.
settings.register_profile('steady', deadline=None, derandomize=True)
settings.load_profile('steady')

# mmengine parses all metafiles of a toolbox for each base config from it.
mmengine.config.utils.load = functools.cache(mmengine.config.utils.load)
# Runners format their config three times, most of the time of a short run.
mmengine.config.config.FormatCode = lambda text, **kwargs: (text, True)
# Iteration-based loops wait for two seconds between epochs.
loops.time = SimpleNamespace(sleep=lambda seconds: None)
# The models are tiny, and each worker has a core.
torch.set_num_threads(1)


def pytest_report_header():
    return 'mmdet is missing: its tests are skipped' if WITHOUT_MMDET else []


def pytest_collection_modifyitems(items):
    if WITHOUT_MMDET:
        for item in items:
            if item.get_closest_marker('mmdet'):
                item.add_marker(pytest.mark.skip(reason='needs mmdet'))


def _managers(kind: type = ManagerMixin) -> list[type]:
    """Return all classes whose instances mmengine keeps by name."""
    return [kind] + [m for sub in kind.__subclasses__()
                     for m in _managers(sub)]


def _forget() -> None:
    for manager in _managers():
        manager._instance_dict.clear()


@pytest.fixture(autouse=True, scope='module')
def spare_the_garbage_collector():
    """Let it skip existing objects: mmengine calls it for each data set."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def forget_other_runs():
    """Drop mmengine's global scopes, visualizers and logs.

    Their names end in the second in which a run starts, so tests that start
    in the same second would share them.
    """
    yield
    _forget()


@pytest.fixture(scope='session')
def forget():
    """A function that does so between two runs of one test."""
    return _forget


@pytest.fixture
def amp_without_gpu(monkeypatch):
    """Let ``AmpOptimWrapper`` run on the CPU, with bfloat16 and a scaler."""
    if torch.cuda.is_available():
        return
    module = importlib.import_module(
        'mmengine.optim.optimizer.amp_optimizer_wrapper')
    monkeypatch.setattr(module, 'is_cuda_available', lambda: True)
    monkeypatch.setattr(module, 'GradScaler', functools.partial(
        torch.amp.GradScaler, 'cpu'))


@pytest.fixture(scope='session')
def folders(tmp_path_factory):
    """``train`` and ``val``, with six and three images of each color."""
    root = tmp_path_factory.mktemp('folders')
    random = np.random.default_rng(0)
    for split, number in (('train', 6), ('val', 3)):
        for name, color in COLORS.items():
            (root / split / name).mkdir(parents=True)
            for i in range(number):
                noise = random.integers(-20, 20, (40, 36 + 4 * i, 3))
                pixels = (np.array(color) + noise).clip(0, 255)
                Image.fromarray(pixels.astype(np.uint8)).save(
                    root / split / name / f'{i}.png')
    return root


@pytest.fixture(scope='session')
def head_runs(tmp_path_factory):
    """Config and checkpoint of five heads on one encoder, by name."""
    folder, shared, runs = tmp_path_factory.mktemp('heads'), None, {}
    for name, config in HEADS.items():
        torch.manual_seed(0)
        cfg = Config.fromfile(DRAWN_WORLD / f'{config}.py')
        with DefaultScope.overwrite_default_scope(cfg.default_scope):
            model = MODELS.build(cfg.model)
        if shared is None:
            for value in model.backbone.state_dict().values():
                if value.is_floating_point():
                    value.copy_(torch.rand_like(value) / 2 + 0.5 if (
                        value.ndim == 1) else torch.randn_like(value)
                        * value[0].numel()**-0.5)
            shared = model.backbone.state_dict()
        model.backbone.load_state_dict(shared)
        runs[name] = cfg, str(folder / f'{name}.pth')
        torch.save(dict(
            meta=dict(cfg=cfg.pretty_text, dataset_meta=dict(
                classes=[f'class_{i}' for i in range(8)])),
            state_dict=model.state_dict()), runs[name][1])
    return runs
