# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Distributed runs on the CPU."""
import socket

import pytest
import torch
import torch.distributed as dist
from mmengine.config import Config
from mmengine.registry import MODEL_WRAPPERS

from qbheat_mm.cli.distributed import init_processes

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason='of machines without a GPU')


@pytest.fixture
def group(tmp_path):
    """A group of one process."""
    dist.init_process_group(
        'gloo', init_method=f'file://{tmp_path}/store', rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def wrapper_of(**settings):
    """The model wrapper of a run with these settings."""
    cfg = Config(dict(launcher='pytorch', **settings))
    init_processes(cfg)
    assert cfg.env_cfg.dist_cfg == dict(backend='gloo')
    return MODEL_WRAPPERS.build(
        dict(cfg.model_wrapper_cfg, module=torch.nn.Linear(2, 2)))


def test_a_custom_wrapper_is_kept(group):
    wrapper = wrapper_of(
        find_unused_parameters=False, env_cfg=None, model_wrapper_cfg=dict(
            type='MMDistributedDataParallel', find_unused_parameters=True,
            broadcast_buffers=True, device_ids=[0]))
    assert wrapper.find_unused_parameters and wrapper.broadcast_buffers
    assert wrapper.device_ids is None


def test_a_single_process_is_left_alone():
    cfg = Config(dict(launcher='none'))
    init_processes(cfg)
    assert cfg.to_dict() == dict(launcher='none')
    assert not dist.is_initialized()


def test_processes_are_connected(monkeypatch, tmp_path):
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = str(free.getsockname()[1])
    for name, value in dict(MASTER_ADDR='127.0.0.1', MASTER_PORT=port,
                            RANK='0', WORLD_SIZE='1', LOCAL_RANK='0').items():
        monkeypatch.setenv(name, value)
    cfg = Config(dict(launcher='pytorch', env_cfg=dict(
        dist_cfg=dict(backend='nccl', timeout=77))))
    init_processes(cfg)
    try:
        assert dist.get_backend() == 'gloo'
        assert cfg.env_cfg.dist_cfg == dict(backend='gloo', timeout=77)
    finally:
        dist.destroy_process_group()
