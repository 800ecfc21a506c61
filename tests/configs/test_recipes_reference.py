# Copyright (c) QB-Heat MM authors. All rights reserved.
"""No value of a config changes unnoticed, and full runs aren't scaled.

test_recipes_paper.py has the papers' values; this compares all values with
those last reviewed, in tests/data/recipes.
"""
import re

import pytest

from qbheat_mm.engine.batch_size import fitting_batch
from qbheat_mm.engine.schedules import fit_schedulers

from ..helpers.shipped import NAMES, load
from ..helpers.tools import ROOT, import_tool
from .reference import ALL, read, resolved

DOCS = ROOT / 'docs'
REFERENCE = read()
tool = import_tool('analysis/complexity.py')


@pytest.mark.parametrize('name', sorted({*ALL, *REFERENCE}))
def test_values_are_as_last_reviewed(name):
    assert name in REFERENCE and name in ALL, 'run `make recipes`'
    assert resolved(name) == REFERENCE[name], (
        'if this is intended, run `make recipes` and review the diff')


def written():
    """Return image size, parameters and MAdds of each row of the page."""
    sizes = {}
    for line in (DOCS / 'configs.md').read_text().splitlines():
        for name in re.findall(r'\(\.\./configs/(.+?\.py)\)', line):
            image, params, madds = line.rstrip('| ').split(' | ')[2:5]
            sizes[name] = tool.ConfigSize(
                image, float(params), None if madds == '-' else float(madds))
    return sizes


def test_the_page_of_configs_is_up_to_date():
    sizes = written()
    assert sorted(sizes) == sorted(tool.shipped()) == NAMES, 'run `make pages`'
    tables = tool.config_tables(
        {name: load(name) for name in tool.shipped()}, sizes)
    page = tool.page('all_configs.md', tables)
    assert page == (DOCS / 'configs.md').read_text(), 'run `make pages`'


@pytest.mark.parametrize('name', [
    'qbheat/benchmarks/mf-285m_8xb512-tran1-coslr-200e_in1k.py',
    'qbheat/coco/dino_mf-285m_4scale_frozen_8xb2-12e_coco.py',
    'qbheat/coco/panoptic-fpn_mf-285m_fpn_frozen_8xb2-1x_coco.py'])
def test_the_page_of_configs_has_the_measured_size(name):
    image, params, madds = tool.measure_config(load(name))
    assert (image, round(params, 2), madds and round(madds, 3)) == (
        written()[name])


#: Sizes of the training sets; users' own are small on purpose.
IMAGES = dict(mmpretrain=1281167, mmdet=117266)
OWN = 1000


@pytest.mark.parametrize('name', NAMES)
def test_a_full_run_is_as_the_recipe_says(name):
    cfg = load(name)
    batch = cfg.train_dataloader.batch_size
    processes = cfg.auto_scale_lr.base_batch_size // batch
    images = OWN if 'own-' in name else IMAGES[cfg.default_scope]
    share = -(-images // processes)
    assert fitting_batch(range(share), batch, processes, minimum=2) == batch
    schedulers = cfg.param_scheduler
    epoch = share // batch
    steps = cfg.train_cfg.get('max_iters') or (
        cfg.train_cfg.max_epochs * epoch)
    assert fit_schedulers(schedulers, steps, epoch) == schedulers


@pytest.mark.parametrize('name', NAMES)
def test_runs_are_reproducible_and_kept_small(name):
    cfg = load(name)
    assert 'qbheat_mm' in cfg.custom_imports.imports
    assert cfg.custom_imports.allow_failed_imports is False
    hooks = cfg.default_hooks
    # 2,400 epochs must not fill a disk, and at most a tenth may be lost.
    assert hooks.checkpoint.interval == 0.1
    assert hooks.checkpoint.max_keep_ckpts <= 3
    assert {'SafeCheckpointHook', 'StrictLoadHook', 'RandomStateHook',
            'ResumeHook', 'StopOnNonFiniteLossHook', 'RunAdviceHook'} <= {
                hook.type for hook in hooks.values()}
    assert cfg.randomness.seed is not None
