# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Write the trained encoder to a file of its own."""
import copy
import logging
import os.path as osp

from mmengine.dist import master_only
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import nn

from ..engine.run_state import latest
from ..errors import UserError
from ..trained.checkpoint import Checkpoint
from ..trained.encoder import Encoder
from ..trained.normalization import Normalization
from ..utils.modules import unwrap
from ..utils.settings import backbone_settings, training_size


@HOOKS.register_module()
class ExportEncoderHook(Hook):
    """Write ``model.backbone`` as safetensors with each checkpoint.

    The file lies next to the last checkpoint of ``SafeCheckpointHook`` and
    holds its encoder, with averaged weights if there are any. Runs that don't
    train the encoder, e.g. probes, write none. A failure is a warning: the
    training goes on.

    Args:
        filename (str): Defaults to ``'encoder.safetensors'``.
    """

    def __init__(self, filename: str = 'encoder.safetensors') -> None:
        self.filename = filename

    @master_only
    def after_save_checkpoint(self, runner: Runner) -> None:
        """Write the file, called by ``SafeCheckpointHook``."""
        backbone = getattr(unwrap(runner.model), 'backbone', None)
        if backbone is None or not any(
                weight.requires_grad for weight in backbone.parameters()):
            return
        checkpoint = latest(runner.work_dir)
        if checkpoint is None:
            return  # none was written, or not to this machine
        out = osp.join(osp.dirname(checkpoint), self.filename)
        try:
            self._write(runner, backbone, checkpoint, out)
        except (UserError, OSError) as error:
            print_log(
                f'no encoder was written next to {checkpoint}: {error}; write '
                'it with tools/export.py CONFIG CHECKPOINT --format '
                'safetensors --out FILE', 'current', logging.WARNING)
        else:
            print_log(f'encoder of {checkpoint} written to {out}', 'current')

    def _write(self, runner: Runner, backbone: nn.Module, checkpoint: str,
               out: str) -> None:
        # Imported here, since importing the package registers this hook.
        from ..trained.encoder_file import export_encoder
        backbone = copy.deepcopy(backbone).cpu()
        Checkpoint.read(checkpoint).load_encoder(backbone)
        normalization = Normalization.of(unwrap(runner.model))
        if normalization is None:
            raise UserError('model.data_preprocessor does not say how images '
                            'are normalized')
        encoder = Encoder(
            backbone, normalization, size=training_size(runner.cfg),
            settings=backbone_settings(runner.cfg), checkpoint=checkpoint)
        export_encoder(encoder, out)
