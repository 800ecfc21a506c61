# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Distributed runs with and without GPUs."""
from datetime import timedelta

import torch.distributed as dist
from mmengine.config import Config
from mmengine.device import get_device


def init_processes(cfg: Config) -> None:
    """Connect the processes of a ``pytorch`` launcher without GPUs.

    mmengine selects a GPU in each process unless a process group exists, so
    on the CPU we create it (gloo) before the runner. No-op otherwise.

    Args:
        cfg (Config): Gets ``env_cfg.dist_cfg`` and ``model_wrapper_cfg``
            for the CPU.
    """
    if cfg.launcher != 'pytorch' or get_device() != 'cpu':
        return
    cfg.env_cfg = cfg.get('env_cfg') or {}
    dist_cfg = dict(cfg.env_cfg.get('dist_cfg') or {}, backend='gloo')
    cfg.env_cfg.dist_cfg = dist_cfg
    # mmengine's default names a GPU for each process.
    cfg.model_wrapper_cfg = {
        'type': 'MMDistributedDataParallel',
        'broadcast_buffers': False,
        'find_unused_parameters': cfg.get('find_unused_parameters', False),
        **(cfg.get('model_wrapper_cfg') or {}),
        'device_ids': None}
    if not dist.is_initialized():
        seconds = dist_cfg.get('timeout')
        dist.init_process_group(
            backend='gloo', timeout=seconds and timedelta(seconds=seconds))
