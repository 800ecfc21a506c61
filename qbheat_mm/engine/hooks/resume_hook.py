# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Check a checkpoint before a run is resumed from it."""
import os.path as osp

from mmengine.dist import all_gather_object
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from ...errors import UserError
from ..resume import require_resumable
from .checkpoint_hooks import is_training


@HOOKS.register_module()
class ResumeHook(Hook):
    """Raise if a checkpoint does not continue the run.

    Also if the processes of a run find different checkpoints: each reads its
    own disk, and gradients of different networks would be averaged silently.
    """

    # Before mmengine and other hooks use the checkpoint.
    priority = 'VERY_HIGH'

    def before_run(self, runner: Runner) -> None:
        """Compare the checkpoints of all processes."""
        if not is_training(runner):
            return
        _require_same(runner, osp.basename(runner._load_from or ''))
        if runner._resume and not runner._load_from:
            runner.logger.warning(
                f"nothing to resume in '{runner.work_dir}': training starts "
                'from the beginning')

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Check the checkpoint of a resumed training."""
        if runner._resume and is_training(runner):
            require_resumable(runner, str(runner._load_from), checkpoint)
            _require_same(runner, f"{osp.basename(runner._load_from)} of "
                                  f"iteration {checkpoint['meta']['iter']}")


def _require_same(runner: Runner, checkpoint: str) -> None:
    found = all_gather_object(checkpoint)
    if len(set(found)) > 1:
        raise UserError(
            f'the processes start from different checkpoints {found}: '
            f"share the work folder '{runner.work_dir}' between machines")
