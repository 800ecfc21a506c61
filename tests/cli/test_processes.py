# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Distributed runs on the CPU."""
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from mmengine.config import Config
from mmengine.registry import MODEL_WRAPPERS

from qbheat_mm.cli.distributed import init_processes

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason='of machines without a GPU')


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Backends and timeouts of process groups; each has one process."""
    groups, start = [], dist.init_process_group

    def start_alone(backend, timeout):
        groups.append((backend, timeout))
        start(backend, init_method=f'file://{tmp_path}/store', rank=0,
              world_size=1)

    monkeypatch.setattr(dist, 'init_process_group', start_alone)
    yield groups
    dist.destroy_process_group()


def test_a_custom_wrapper_is_kept(started):
    cfg = Config(dict(
        launcher='pytorch', find_unused_parameters=False,
        env_cfg=dict(dist_cfg=dict(backend='nccl', timeout=77)),
        model_wrapper_cfg=dict(
            type='MMDistributedDataParallel', find_unused_parameters=True,
            broadcast_buffers=True, device_ids=[0])))
    init_processes(cfg)
    assert started == [('gloo', timedelta(seconds=77))]
    wrapper = MODEL_WRAPPERS.build(
        dict(cfg.model_wrapper_cfg, module=torch.nn.Linear(2, 2)))
    assert wrapper.find_unused_parameters and wrapper.broadcast_buffers
    assert wrapper.device_ids is None
