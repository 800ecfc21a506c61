# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A run that needs a checkpoint starts from it, entirely, or not at all."""
from collections.abc import Sequence

from mmengine.hooks import Hook
from mmengine.model import BaseTTAModel, is_model_wrapper
from mmengine.registry import HOOKS
from mmengine.runner import Runner, find_latest_checkpoint

from ...errors import UserError
from ..matching import compare, describe_backbone


@HOOKS.register_module()
class RequireCheckpointHook(Hook):
    """Refuse to train from scratch what continues another run.

    Args:
        origin (str): What the checkpoint comes from, for the message, as
            ``'the tran-1 probing run'``.
    """

    def __init__(self, origin: str = 'the run that it continues') -> None:
        self.origin = origin

    def before_run(self, runner: Runner) -> None:
        """Look for a checkpoint to load or to resume.

        Raises:
            UserError: If there is none.
        """
        if runner.cfg.get('load_from'):
            return
        if runner.cfg.get('resume'):
            # mmengine would start from scratch where there is nothing.
            if find_latest_checkpoint(runner.work_dir):
                return
            raise UserError(
                f"nothing to resume in '{runner.work_dir}', and this "
                f'configuration starts from a checkpoint of {self.origin}: '
                'set it with --cfg-options load_from=FILE, without --resume')
        raise UserError(
            'load_from is not set, and this configuration starts from a '
            f'checkpoint of {self.origin}: set it with --cfg-options '
            'load_from=FILE')


@HOOKS.register_module()
class CheckpointMatchHook(Hook):
    """Refuse a checkpoint that does not fill the whole model.

    mmengine loads what fits and warns about the rest, when it trains
    (``load_from``), resumes and tests.

    Args:
        allow_missing (Sequence[str]): Beginnings of names that may be absent
            from the checkpoint or of another shape there, as ``('head.',)``
            when a classifier is trained for new classes. ``('',)`` allows
            everything. Defaults to ().
    """

    # After hooks that rearrange what was loaded, as the one for averaged
    # weights does.
    priority = 'VERY_LOW'

    def __init__(self, allow_missing: Sequence[str] = ()) -> None:
        self.allow_missing = tuple(allow_missing)

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Compare the model with what was loaded.

        Args:
            runner (Runner): The runner with its model.
            checkpoint (dict): The checkpoint.

        Raises:
            UserError: If tensors are missing or of another shape.
        """
        model = runner.model
        while is_model_wrapper(model) or isinstance(model, BaseTTAModel):
            model = model.module
        found = {
            name.removeprefix('module.'): tensor
            for name, tensor in checkpoint.get('state_dict',
                                               checkpoint).items()
        }
        needed = {
            name: tensor
            for name, tensor in model.state_dict().items()
            if not name.startswith(self.allow_missing)
        }
        # More than needed does no harm here: a pre-training decoder is
        # left behind on purpose.
        found = {name: found[name] for name in needed if name in found}
        mismatch = compare(needed, found)
        if not mismatch:
            return
        origin = describe_backbone(checkpoint)
        origin = f', trained with {origin},' if origin else ''
        source = runner.cfg.get('load_from') or 'the checkpoint to resume'
        wrong = ' '.join(mismatch.missing + mismatch.shapes)
        encoder = ',' if 'backbone.' in wrong else (
            ', or for its encoder alone set '
            'model.backbone.init_cfg.checkpoint instead of load_from,')
        raise UserError(
            f"checkpoint '{source}'{origin} does not fit the model "
            f'{type(model).__name__}: {mismatch}; give a checkpoint of this '
            f'configuration{encoder} or name what may differ with '
            '--cfg-options '
            "default_hooks.checkpoint_match.allow_missing=\"['head.']\"")
