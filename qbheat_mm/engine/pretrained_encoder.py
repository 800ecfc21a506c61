# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The one way in which a pre-trained encoder enters a probe or detector."""
from collections.abc import Mapping

from mmengine.logging import print_log
from mmengine.model.weight_init import update_init_info
from mmengine.registry import WEIGHT_INITIALIZERS
from torch import Tensor, nn

from ..arguments import BOOL, TEXT, checked, optional
from ..compat import load_checkpoint
from ..errors import UserError
from .matching import compare, find_prefix
from .origin import describe_backbone, trained_pixels
from .weights import few, named_weights, require_possible

_SETTING = 'model.backbone.init_cfg'
_WAY_OUT = (f'a checkpoint of this encoder with {_SETTING}.checkpoint=FILE or '
            'change model.backbone to fit')


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
        allow_other_pixels (bool): Whether the encoder may get pixels of
            another mean, deviation or channel order than it was trained
            with, which :class:`StrictLoadHook` compares. Defaults to
            False.
    """

    @checked(checkpoint=optional(TEXT), allow_other_pixels=BOOL)
    def __init__(self,
                 checkpoint: str | None = None,
                 allow_other_pixels: bool = False) -> None:
        self.checkpoint = checkpoint
        self.allow_other_pixels = allow_other_pixels

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
        self.fill(module, load_checkpoint(self.checkpoint, map_location='cpu'))

    def fill(self,
             module: nn.Module,
             content: Mapping,
             way_out: str = _WAY_OUT) -> None:
        """Fill ``module`` with weights that were read already.

        Args:
            module (nn.Module): The backbone.
            content (Mapping): The checkpoint, as loaded.
            way_out (str): What to give where it does not fit.

        Raises:
            UserError: If the checkpoint is of another architecture, or holds
                values that are not finite.
        """
        weights, prefix = self._select(module, content, way_out)
        module.load_state_dict(weights, strict=False)
        print_log(
            f'encoder weights: {len(weights)} of {len(module.state_dict())} '
            f"tensors from {self.checkpoint} (prefix '{prefix}')",
            logger='current')
        self._keep(module)
        # For whoever knows the pixels that the module is going to get.
        module.pretrained_from = self.checkpoint
        module.pretrained_pixels = (
            None if self.allow_other_pixels else trained_pixels(content))

    def _select(self, module: nn.Module, checkpoint: Mapping,
                way_out: str) -> tuple[dict[str, Tensor], str]:
        """Take the tensors of ``module`` out of a checkpoint.

        Returns:
            tuple: The tensors by the module's names, and the prefix that
            they had in the file.
        """
        needed = module.state_dict()
        tensors = _weights_of(checkpoint)
        prefix = find_prefix(needed, tensors)
        if prefix is None:
            names = few(tensors) or 'no tensors at all'
            raise self._wrong(module, checkpoint, 'none of its tensors is '
                              f'there (the file holds {names})', way_out)
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
                              f"under the prefix '{prefix}' {mismatch}",
                              way_out)
        require_possible(found, self.checkpoint, 'of the encoder')
        return {name: found[name] for name in needed if name in found}, prefix

    def _wrong(self, module: nn.Module, checkpoint: Mapping, reason: str,
               way_out: str) -> UserError:
        """The error for a checkpoint of another architecture."""
        arch = getattr(module, 'arch', None)
        name = type(module).__name__
        name += f'(arch={arch!r})' if isinstance(arch, str) else ''
        origin = describe_backbone(checkpoint)
        origin = f' and was trained with {origin}' if origin else ''
        return UserError(
            f"checkpoint '{self.checkpoint}' does not fit the encoder {name}"
            f'{origin}: {reason}; give {way_out}')

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


def _weights_of(checkpoint: Mapping) -> dict:
    """The named weights of a checkpoint, whichever way it nests them."""
    weights = named_weights(checkpoint)
    if isinstance(weights.get('model'), Mapping):
        weights = named_weights(weights['model'])
    return weights
