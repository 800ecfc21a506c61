# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The trained encoder as a file that other programs read."""
import logging
import os.path as osp

from mmengine.dist import master_only
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import nn

from ...errors import UserError
from ..resuming import latest_checkpoint
from ..wrapping import unwrap


@HOOKS.register_module()
class ExportEncoderHook(Hook):
    """Write ``model.backbone`` as safetensors when training has ended.

    The file lies beside the last checkpoint and holds its encoder, with
    averaged weights where it has these. Runs that do not train the encoder,
    as probes do, write none. No finished training fails for want of a file:
    what hinders it is told in a line.

    Args:
        filename (str): Defaults to ``'encoder.safetensors'``.
    """

    # After the last checkpoint.
    priority = 'LOWEST'

    def __init__(self, filename: str = 'encoder.safetensors') -> None:
        self.filename = filename

    @master_only
    def after_train(self, runner: Runner) -> None:
        """Write the file."""
        model = unwrap(runner.model)
        if not _trains_encoder(model):
            return
        checkpoint = latest_checkpoint(runner.work_dir)
        if checkpoint is None:
            return  # none was written, or not to this machine
        out = osp.join(osp.dirname(checkpoint), self.filename)
        # It imports this package.
        from ...export import export_encoder
        try:
            export_encoder(checkpoint, out)
        except (UserError, FileNotFoundError) as error:
            print_log(
                f'no encoder was written beside {checkpoint}: {error}; '
                'tools/export.py CONFIG CHECKPOINT --format safetensors '
                '--out FILE makes up for it', 'current', logging.WARNING)
        else:
            print_log(f'encoder of {checkpoint} written to {out}', 'current')


def _trains_encoder(model: nn.Module) -> bool:
    backbone = getattr(model, 'backbone', None)
    return isinstance(backbone, nn.Module) and any(
        parameter.requires_grad for parameter in backbone.parameters())
