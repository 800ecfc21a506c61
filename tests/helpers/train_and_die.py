# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Do what tools/train.py does, and kill it within the third epoch."""
import os
import runpy
import signal
import sys
from pathlib import Path

from mmengine.hooks import Hook
from mmengine.registry import HOOKS

TRAIN = Path(__file__).parents[2] / 'tools/train.py'


@HOOKS.register_module()
class KillHook(Hook):
    """Kill the process within the third epoch."""

    def before_train_iter(self, runner, batch_idx, data_batch=None):
        if runner.epoch == 2 and batch_idx == 1:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == '__main__':
    sys.argv = [str(TRAIN), *sys.argv[1:],
                "custom_hooks=[{'type':'KillHook'}]"]
    sys.path[0] = str(TRAIN.parent)
    runpy.run_path(str(TRAIN), run_name='__main__')
