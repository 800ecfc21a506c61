# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Recipes of full length on full data are left as they are."""
import itertools

import pytest
from torch.utils.data import DataLoader

from qbheat_mm.engine.auto_scale_runner import fitting_batch
from qbheat_mm.engine.schedules import fit_schedulers

from .shipped import DEMOS, NAMES, load

#: Images of the training sets; one's own are few on purpose.
IMAGES = dict(mmpretrain=1281167, mmdet=117266)
OWN = 1000


def images_of(name, cfg):
    return OWN if 'own-' in name else IMAGES[cfg.default_scope]


@pytest.mark.parametrize('name', NAMES)
def test_a_full_run_is_as_the_recipe_says(name):
    cfg = load(name)
    batch = cfg.train_dataloader.batch_size
    processes = cfg.auto_scale_lr.base_batch_size // batch
    images = images_of(name, cfg)
    share = -(-images // processes)
    loader = DataLoader(range(images), batch, sampler=range(share))
    assert fitting_batch(loader, batch, processes, least=2) == batch
    schedulers = cfg.param_scheduler
    epoch = share // batch
    assert fit_schedulers(schedulers, cfg.train_cfg.max_epochs * epoch,
                          epoch) == schedulers


@pytest.mark.parametrize('name', NAMES)
def test_the_number_of_epochs_is_enough_for_a_short_run(name):
    cfg = load(name)
    assert cfg.runner_type == 'AutoScaleRunner'
    for epochs, epoch in itertools.product((1, 2, 5), (1, 30)):
        steps = epochs * epoch
        fitted = fit_schedulers(cfg.param_scheduler, steps, epoch)
        assert fitted != cfg.param_scheduler
        for scheduler in fitted:
            # Nothing is left for after the end.
            factor = epoch if scheduler.get('by_epoch', True) else 1
            assert scheduler.get('begin', 0) * factor < steps
            if 'MultiStep' not in scheduler['type']:
                assert scheduler.get('end', 0) * factor <= steps


@pytest.mark.parametrize('name', DEMOS)
def test_the_demo_is_left_as_it_is(name):
    from projects.drawn_world.data import SIZES
    cfg, sizes = load(name), SIZES['full']
    images = (sizes.detection_train if cfg.default_scope == 'mmdet'
              else getattr(sizes, cfg.train_dataloader.dataset.split))
    images = cfg.train_dataloader.dataset.get('indices', images)
    epoch = images // cfg.train_dataloader.batch_size
    schedulers = (cfg.param_scheduler if isinstance(cfg.param_scheduler, list)
                  else [cfg.param_scheduler])
    assert fit_schedulers(schedulers, cfg.train_cfg.max_epochs * epoch,
                          epoch) == schedulers
