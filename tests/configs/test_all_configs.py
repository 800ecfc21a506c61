# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Properties of all configs; full runs aren't scaled."""
import pytest

from qbheat_mm.engine.auto_scale_runner import fitting_batch
from qbheat_mm.engine.schedules import fit_schedulers

from .shipped import NAMES, load

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
    assert fit_schedulers(schedulers, cfg.train_cfg.max_epochs * epoch,
                          epoch) == schedulers


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
