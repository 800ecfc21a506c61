# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Distributed runs with and without GPUs."""
from datetime import timedelta

from mmengine.config import Config


def init_processes(cfg: Config) -> None:
    """Create gloo's process group for a ``pytorch`` launcher without GPUs.

    mmengine would select a GPU for each process. No-op in other cases. Adapts
    the config's ``model_wrapper_cfg`` to the CPU.
    """
    from mmengine.device import get_device  # loads torch
    if cfg.launcher != 'pytorch' or get_device() != 'cpu':
        return
    # mmengine's defaults, except that they name a GPU for each process.
    cfg.model_wrapper_cfg = {
        'broadcast_buffers': False,
        'find_unused_parameters': cfg.get('find_unused_parameters', False),
        **(cfg.get('model_wrapper_cfg') or {}),
        'device_ids': None}
    import torch.distributed as dist
    if not dist.is_initialized():
        env = cfg.get('env_cfg') or {}
        seconds = (env.get('dist_cfg') or {}).get('timeout')
        timeout = timedelta(seconds=seconds) if seconds else None
        dist.init_process_group('gloo', timeout=timeout)
