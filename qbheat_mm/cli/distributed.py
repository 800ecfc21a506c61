# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Processes of a distributed run, with and without GPUs."""
import os
from datetime import timedelta

import torch
import torch.distributed as dist
from mmengine.config import Config
from mmengine.device import get_device

from ..errors import UserError


def init_processes(cfg: Config) -> None:
    """Prepare a distributed run of ``cfg.launcher``; no-op for ``'none'``.

    mmengine reaches for a GPU in each process. Without one the processes
    are connected here, through gloo, before mmengine builds its runner,
    which respects that.

    Args:
        cfg (Config): Gets ``env_cfg.dist_cfg`` and ``model_wrapper_cfg``
            that fit the CPU.

    Raises:
        UserError: If there are more processes than GPUs.
    """
    if cfg.launcher != 'pytorch':
        return
    local_rank = int(os.environ.get('LOCAL_RANK', 0))
    if get_device() != 'cpu':
        gpus = torch.cuda.device_count()
        if torch.cuda.is_available() and local_rank >= gpus:
            raise UserError(
                f'process {local_rank} has no GPU: this machine shows {gpus};'
                ' start at most so many processes, or set '
                'CUDA_VISIBLE_DEVICES=-1 to train on the CPU')
        return
    cfg.env_cfg = cfg.get('env_cfg') or {}
    given = dict(cfg.env_cfg.get('dist_cfg') or {})
    cfg.env_cfg.dist_cfg = dict(given, backend='gloo')
    # mmengine's default names a GPU of each process.
    wrapper = dict(
        type='MMDistributedDataParallel',
        broadcast_buffers=False,
        find_unused_parameters=cfg.get('find_unused_parameters', False))
    wrapper.update(cfg.get('model_wrapper_cfg') or {})
    wrapper['device_ids'] = None
    cfg.model_wrapper_cfg = wrapper
    if not dist.is_initialized():
        seconds = given.get('timeout')
        dist.init_process_group(
            backend='gloo',
            timeout=None if seconds is None else timedelta(seconds=seconds))
