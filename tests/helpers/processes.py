# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The two processes of a distributed run."""
import multiprocessing
import os
from datetime import timedelta

import torch.distributed as dist
import torch.multiprocessing as mp

# A server imports everything once, then forks the processes. Forked from
# pytest, they could not train once a test has used a GPU or pretended to:
# autograd's threads do not survive a fork.
multiprocessing.set_forkserver_preload(
    ['tests.conftest', 'mmpretrain.apis', 'qbheat_mm', 'mmdet.apis'])


def run_in_two_processes(function, folder, *args):
    """Call ``function(rank, folder, *args)`` in both processes of a group."""
    mp.start_processes(call_in_group, (function, folder, args), 2,
                       start_method='forkserver')


def call_in_group(rank, function, folder, args):
    os.environ.update(RANK=str(rank), WORLD_SIZE='2', LOCAL_RANK=str(rank))
    dist.init_process_group(
        'gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2,
        timeout=timedelta(seconds=120))
    function(rank, folder, *args)
    dist.destroy_process_group()
