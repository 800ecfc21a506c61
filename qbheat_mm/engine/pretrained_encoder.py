# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Load a pre-trained encoder into a probe or detector."""
from collections.abc import Mapping

from mmengine.logging import print_log
from mmengine.model.weight_init import update_init_info
from mmengine.registry import WEIGHT_INITIALIZERS
from torch import nn

from ..errors import UserError
from .checkpoint import (
    encoder_weights,
    few,
    input_normalization,
    read,
    require_match,
    weights,
)

_SETTING = 'model.backbone.init_cfg'


@WEIGHT_INITIALIZERS.register_module()
class PretrainedEncoder:
    """Load every tensor of a backbone from a checkpoint, or fail.

    mmengine's ``Pretrained`` loads whatever fits, possibly nothing. This
    initializer finds the encoder in checkpoints of pre-training, probing,
    classification and detection, and in files of the encoder alone. It works
    for any backbone of mmpretrain and mmdet:
    ``init_cfg=dict(type='PretrainedEncoder', checkpoint=...)``.

    Args:
        checkpoint (str, optional): File or URL. None raises an error when
            weights are initialized, so that no run starts from random
            weights because of a forgotten setting. Defaults to None.
        allow_other_normalization (bool): Whether the encoder may get images
            normalized differently than in its training. Defaults to False.
    """

    def __init__(self,
                 checkpoint: str | None = None,
                 allow_other_normalization: bool = False) -> None:
        self.checkpoint = checkpoint
        self.allow_other_normalization = allow_other_normalization

    def __call__(self, module: nn.Module) -> None:
        """Load the weights.

        Args:
            module (nn.Module): The backbone.

        Raises:
            UserError: If no checkpoint is set or it doesn't fit.
        """
        if self.checkpoint is None:
            raise UserError(
                f'no encoder weights for {type(module).__name__}: set '
                f'--cfg-options {_SETTING}.checkpoint=FILE, or '
                f'{_SETTING}=None for random weights on purpose')
        self.load(module, read(self.checkpoint))

    def load(self, module: nn.Module, content: Mapping) -> None:
        """Load weights from the content of a checkpoint.

        Raises:
            UserError: If they don't fit.
        """
        needed = module.state_dict()
        found = encoder_weights(content, needed)
        arch = getattr(module, 'arch', None)
        network = type(module).__name__ + (
            f'(arch={arch!r})' if isinstance(arch, str) else '')
        if not found:
            raise UserError(
                f"checkpoint '{self.checkpoint}' holds no tensor of "
                f'{network}, but {few(weights(content)) or "none at all"}')
        require_match(needed, found, self.checkpoint, network, content)
        module.load_state_dict(found, strict=False)
        print_log(f'loaded {len(needed)} tensors of {network} from '
                  f'{self.checkpoint}', logger='current')
        self._keep(module)
        # StrictLoadHook compares it with that of the model.
        module.pretrained_from = self.checkpoint
        module.pretrained_normalization = (
            None if self.allow_other_normalization else
            input_normalization(content))

    def _keep(self, module: nn.Module) -> None:
        """Keep ``init_weights`` from changing the weights afterwards.

        mmengine initializes children after any initializer but
        ``Pretrained``, and backbones such as ResNet zero some weights unless
        ``init_cfg`` says ``Pretrained``.
        """
        if hasattr(module, '_params_init_info'):
            update_init_info(module, f'PretrainedEncoder: {self.checkpoint}')
        for child in module.modules():
            child._is_init = True
        module.init_cfg = dict(type='Pretrained', checkpoint=self.checkpoint)
