# Copyright (c) QB-Heat MM authors. All rights reserved.
"""AutoScaleRunner keeps recipes of full length, and fits short runs."""
import itertools

import pytest
from torch.utils.data import DataLoader

from qbheat_mm.engine.auto_scale_runner import fitting_batch
from qbheat_mm.engine.schedules import fit_schedulers

from .shipped import NAMES, load

#: Images of the training sets; one's own are few on purpose.
IMAGES = dict(mmpretrain=1281167, mmdet=117266)
OWN = 1000


@pytest.mark.parametrize('name', NAMES)
def test_a_full_run_is_as_the_recipe_says(name):
    cfg = load(name)
    batch = cfg.train_dataloader.batch_size
    processes = cfg.auto_scale_lr.base_batch_size // batch
    images = OWN if 'own-' in name else IMAGES[cfg.default_scope]
    share = -(-images // processes)
    loader = DataLoader(range(images), batch, sampler=range(share))
    assert fitting_batch(loader, batch, processes, least=2) == batch
    schedulers = cfg.param_scheduler
    epoch = share // batch
    assert fit_schedulers(schedulers, cfg.train_cfg.max_epochs * epoch,
                          epoch) == schedulers


@pytest.mark.parametrize('name', NAMES)
def test_the_schedules_of_a_short_run_end_with_it(name):
    cfg = load(name)
    assert cfg.runner_type == 'AutoScaleRunner'
    for epochs, epoch in itertools.product((1, 2, 5), (1, 30)):
        steps = epochs * epoch
        fitted = fit_schedulers(cfg.param_scheduler, steps, epoch)
        assert fitted != cfg.param_scheduler
        for scheduler in fitted:
            factor = epoch if scheduler.get('by_epoch', True) else 1
            assert scheduler.get('begin', 0) * factor < steps
            if 'MultiStep' not in scheduler['type']:
                assert scheduler.get('end', 0) * factor <= steps
