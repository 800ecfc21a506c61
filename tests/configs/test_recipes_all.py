# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What every recipe has in common with every other."""
import re

import pytest

from qbheat_mm.engine.origin import pixels_in

from .built import normalised
from .recipe import ALL, resolved
from .shipped import NAMES, ROOT, find, load
from .sources import STATISTICS


@pytest.mark.parametrize('name', [
    'qbheat/qbheat_mf-285m_8xb128-amp-coslr-100e_in1k.py',
    'qbheat/benchmarks/mf-285m_8xb512-linear-coslr-90e_in1k.py',
    'mocov2/mocov2_mf-285m_8xb32-coslr-200e_in1k.py',
    'mobile_former/mf-294m_8xb128-coslr-450e_in1k.py',
    'qbheat/coco/mf-dec-211_mf-285m_frozen_8xb2-500e_coco.py',
    'qbheat/coco/retinanet_mf-285m_fpn_frozen_8xb2-1x_coco.py'])
def test_the_network_sees_normalised_rgb(name):
    mean, std = STATISTICS.values()
    assert normalised(name, mean) == pytest.approx([0.] * 3, abs=1e-4)
    colour = [m + k * s for k, m, s in zip((1, 2, -1), mean, std)]
    assert normalised(name, colour) == pytest.approx([1, 2, -1], abs=1e-4)


def test_all_networks_see_the_same_statistics():
    for name in NAMES:
        leaves = resolved(name)
        for path in leaves:
            if path.endswith(('data_preprocessor.mean',
                              'data_preprocessor.std')):
                assert leaves[path] == STATISTICS[path.split('.')[-1]], name


@pytest.mark.parametrize('names', [
    NAMES, sorted(f'demo/{path.name}' for path in (ROOT / 'demo').iterdir())
], ids=['shipped', 'demo'])
def test_an_encoder_may_go_from_each_to_each(names):
    seen = {pixels_in(load(name).to_dict()) for name in names}
    assert len(seen) == 1 and seen.pop().rgb, seen


def test_names_say_what_the_configs_hold():
    for name in find('in1k.py'):
        cfg = load(name)
        gpus, batch = map(int, re.search(r'(\d+)xb(\d+)', name).groups())
        assert cfg.train_dataloader.batch_size == batch, name
        assert cfg.auto_scale_lr.base_batch_size == gpus * batch, name
        epochs = int(re.search(r'-(\d+)e_in1k', name).group(1))
        assert cfg.train_cfg.max_epochs == epochs, name
        arch = re.search(r'mf-[\d.]+[mg]', name)
        assert arch is None or cfg.model.backbone.arch == arch.group(), name


def test_no_run_has_what_no_source_names():
    """Neither an average of weights, nor stochastic depth, nor early ends."""
    for name in ALL:
        values = [str(value) for value in resolved(name).values()]
        assert not any('EMA' in value or 'EarlyStopping' in value
                       for value in values), name
        assert not any('drop_path' in path for path in resolved(name)), name
