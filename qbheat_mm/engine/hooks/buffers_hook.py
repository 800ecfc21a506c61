# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Batch statistics of several processes."""
from mmengine.dist import broadcast
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner


@HOOKS.register_module()
class BroadcastBuffersHook(Hook):
    """Validate the network whose checkpoint is written.

    Every process has the batch statistics of its own images, and the first
    one writes its own. mmengine lets each validate its share of the images
    with what it has, so that a metric, and what is best by it, belongs to no
    network that anyone gets, and changes where a run is resumed.

    Here all take the first one's statistics before they validate.
    mmengine's ``SyncBuffersHook`` averages them instead; in a loop of
    iterations it does so after the checkpoint has been written, and it
    leaves out averaged weights (``EMAHook``). No-op with one process.
    """

    # Once EMAHook has put the averaged weights in.
    priority = 'BELOW_NORMAL'

    def before_val_epoch(self, runner: Runner) -> None:
        """Give the first process's buffers to the others."""
        for buffer in runner.model.buffers():
            broadcast(buffer)
