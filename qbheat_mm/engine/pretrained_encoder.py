# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The one way in which a pre-trained encoder enters a probe or detector."""
from collections.abc import Mapping

from mmengine.logging import print_log
from mmengine.model.weight_init import update_init_info
from mmengine.registry import WEIGHT_INITIALIZERS
from torch import Tensor, nn

from ..compat import load_checkpoint
from ..errors import UserError
from .matching import compare, describe_backbone, find_prefix, non_finite

_SETTING = 'model.backbone.init_cfg'


@WEIGHT_INITIALIZERS.register_module()
class PretrainedEncoder:
    """Load every tensor of a backbone from a checkpoint, or fail.

    mmengine's own ``Pretrained`` goes on with whatever fits, in the worst
    case with random weights. This one knows the checkpoints of pre-training,
    probing, classification and detection, as well as bare encoders, and
    takes all tensors or raises.

    It works on any backbone of mmpretrain and mmdet:
    ``model.backbone.init_cfg=dict(type='PretrainedEncoder', checkpoint=...)``.

    Args:
        checkpoint (str, optional): File or URL. None raises when the weights
            are initialised, so that no run starts from random weights
            because a setting was forgotten. Defaults to None.
    """

    def __init__(self, checkpoint: str | None = None) -> None:
        self.checkpoint = checkpoint

    def __call__(self, module: nn.Module) -> None:
        """Fill ``module`` with the checkpoint's weights.

        Args:
            module (nn.Module): The backbone.

        Raises:
            FileNotFoundError: If there is no such file.
            UserError: If no checkpoint is set, if it is refused, damaged or
                of another architecture, or holds values that are not finite.
        """
        if self.checkpoint is None:
            raise UserError(
                f'no encoder weights for {type(module).__name__}: set them '
                f'with --cfg-options {_SETTING}.checkpoint=FILE, or, for a '
                f'random encoder on purpose, {_SETTING}=None')
        checkpoint = load_checkpoint(self.checkpoint, map_location='cpu')
        weights, prefix = self._select(module, checkpoint)
        module.load_state_dict(weights, strict=False)
        print_log(
            f'encoder weights: {len(weights)} of {len(module.state_dict())} '
            f"tensors from {self.checkpoint} (prefix '{prefix}')",
            logger='current')
        self._keep(module)

    def _select(self, module: nn.Module,
                checkpoint: Mapping) -> tuple[dict[str, Tensor], str]:
        """Take the tensors of ``module`` out of a checkpoint.

        Returns:
            tuple: The tensors by the module's names, and the prefix that
            they had in the file.
        """
        needed = module.state_dict()
        tensors = _tensors_of(checkpoint)
        prefix = find_prefix(needed, tensors)
        if prefix is None:
            names = ', '.join(list(tensors)[:3]) or 'no tensors at all'
            raise self._wrong(module, checkpoint, 'none of its tensors is '
                              f'there (the file holds {names}, ...)')
        found = {
            key[len(prefix):]: tensor
            for key, tensor in tensors.items() if key.startswith(prefix)
        }
        if not prefix:
            # A bare file may hold a classifier beside the encoder.
            children = {name.split('.')[0] for name in needed}
            found = {
                name: tensor
                for name, tensor in found.items()
                if name.split('.')[0] in children
            }
        mismatch = compare(needed, found)
        if mismatch:
            raise self._wrong(module, checkpoint,
                              f"under the prefix '{prefix}' {mismatch}")
        broken = non_finite(found)
        if broken:
            raise UserError(
                f"checkpoint '{self.checkpoint}' holds NaN or infinite values "
                f'in {len(broken)} tensors of the encoder '
                f'({", ".join(broken[:3])}): the run that wrote it diverged; '
                'take an earlier checkpoint')
        return found, prefix

    def _wrong(self, module: nn.Module, checkpoint: Mapping,
               reason: str) -> UserError:
        """The error for a checkpoint of another architecture."""
        arch = getattr(module, 'arch', None)
        name = type(module).__name__
        name += f'(arch={arch!r})' if isinstance(arch, str) else ''
        origin = describe_backbone(checkpoint)
        origin = f' and was trained with {origin}' if origin else ''
        return UserError(
            f"checkpoint '{self.checkpoint}' does not fit the encoder {name}"
            f'{origin}: {reason}; give a checkpoint of this encoder with '
            f'{_SETTING}.checkpoint=FILE or change model.backbone to fit')

    def _keep(self, module: nn.Module) -> None:
        """Keep what follows in ``init_weights`` from changing the weights.

        mmengine runs initialisers other than ``Pretrained`` before those of
        the children, and backbones such as ResNet zero some weights
        afterwards unless ``init_cfg`` says ``Pretrained``.
        """
        if hasattr(module, '_params_init_info'):
            update_init_info(module, f'PretrainedEncoder: {self.checkpoint}')
        for child in module.modules():
            child._is_init = True
        module.init_cfg = dict(type='Pretrained', checkpoint=self.checkpoint)


def _tensors_of(checkpoint) -> dict[str, Tensor]:
    """The named tensors of a checkpoint, whichever way it nests them."""
    if not isinstance(checkpoint, Mapping):
        return {}
    for key in ('state_dict', 'model'):
        if isinstance(checkpoint.get(key), Mapping):
            checkpoint = checkpoint[key]
    return {
        key: value
        for key, value in checkpoint.items() if isinstance(value, Tensor)
    }
