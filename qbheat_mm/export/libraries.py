# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Weights of mmpretrain's and mmdet's encoders for torchvision and timm.

The libraries define a network's layers in the same order, so tensors are
matched by position. The other library's network must load them strictly and
compute the same features.
"""
import copy

import torch
from torch import Tensor, nn

from ..errors import UserError
from ..utils.modules import relative_difference
from .programs import TOLERANCE

KINDS = ('ResNet', 'ResNetV1c', 'ResNetV1d', 'ResNeXt', 'ConvNeXt')


def convert(encoder: nn.Module,
            library: str) -> tuple[dict[str, Tensor], float]:
    """Rename an encoder's weights, and compare the library's features.

    Args:
        encoder (nn.Module): A ResNet, ResNeXt or ConvNeXt of mmpretrain or
            mmdet, in evaluation mode.
        library (str): ``'torchvision'`` or ``'timm'``.

    Returns:
        tuple[dict[str, Tensor], float]: All weights but those of the last
        linear layer, and the largest difference of the pooled features of a
        random image over their largest value.

    Raises:
        UserError: If the library is not installed, has no such network, or
            computes other features.
    """
    kind = type(encoder).__name__
    instead = 'use --format safetensors, pt2 or onnx'
    if kind not in KINDS:
        raise UserError(f'{library} has no {kind}, only {", ".join(KINDS)}: '
                        f'{instead}')
    try:
        model = (_torchvision if library == 'torchvision' else _timm)(encoder)
    except ImportError as error:
        raise UserError(
            f'--format {library} compares the weights with {library}, which '
            f'cannot be imported ({error}): pip install {library}') from error
    try:
        state = _rename(encoder, model.state_dict())
        model.load_state_dict(state)
    except (ValueError, RuntimeError) as error:
        raise UserError(f'{library} has no such {kind} ({error}): {instead}'
                        ) from error
    difference = _compare(model.eval(), encoder)
    if difference > TOLERANCE:
        raise UserError(
            f'{library} has no such {kind} (its features differ by '
            f'{difference:.1e} of their largest value): {instead}')
    return state, difference


def _rename(encoder: nn.Module,
            theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Give an encoder's tensors the other network's names and shapes.

    Raises:
        ValueError, RuntimeError: If they don't correspond.
    """
    ours = encoder.state_dict()
    if type(encoder).__name__ == 'ConvNeXt':
        # Detectors have the norms of other outputs, too.
        ours = {name: ours[name] for name in sorted(ours, key=_position)
                if not name.startswith(('norm0', 'norm1', 'norm2'))}
    # Shapes: layer scale, and 1x1 convolutions as linear layers.
    return {name: tensor.detach().reshape(theirs[name].shape).clone()
            for name, tensor in zip(theirs, ours.values(), strict=True)}


def _position(name: str) -> tuple:
    """Sort a ConvNeXt's tensors in the order of computation.

    mmpretrain defines all downsampling layers before the stages, and a
    block's second 1x1 convolution before its response normalization.
    """
    part, *rest = name.split('.')
    if not part.endswith('s'):  # the last norm
        return (4, )
    return int(rest[0]), part, int(rest[1]), 'pointwise_conv2' in name


def _torchvision(encoder: nn.Module) -> nn.Module:
    """torchvision's network, without its last linear layer."""
    from torchvision.models import convnext, resnet
    if type(encoder).__name__ == 'ConvNeXt':
        widths = list(encoder.channels)
        model = convnext.ConvNeXt([
            convnext.CNBlockConfig(width, following, depth)
            for width, following, depth in zip(
                widths, [*widths[1:], None], encoder.depths)])
        model.classifier[2] = nn.Identity()
        return model
    model = resnet.ResNet(
        _block(encoder, resnet), list(encoder.stage_blocks),
        groups=getattr(encoder, 'groups', 1),
        width_per_group=getattr(encoder, 'width_per_group', 64))
    model.fc = nn.Identity()
    return model


def _timm(encoder: nn.Module) -> nn.Module:
    """timm's network, without its last linear layer."""
    from timm.models import convnext, resnet
    if type(encoder).__name__ == 'ConvNeXt':
        block = encoder.stages[0][0]
        return convnext.ConvNeXt(
            depths=tuple(encoder.depths), dims=tuple(encoder.channels),
            use_grn=block.grn is not None,
            ls_init_value=None if block.gamma is None else 1e-6,
            num_classes=0)
    return resnet.ResNet(
        _block(encoder, resnet), tuple(encoder.stage_blocks), num_classes=0,
        cardinality=getattr(encoder, 'groups', 1),
        base_width=getattr(encoder, 'width_per_group', 64),
        stem_width=encoder.stem_channels // 2 if encoder.deep_stem else 64,
        stem_type='deep' if encoder.deep_stem else '',
        avg_down=encoder.avg_down)


def _block(encoder: nn.Module, resnet: object) -> type[nn.Module]:
    return (resnet.Bottleneck if hasattr(encoder.layer1[0], 'conv3')
            else resnet.BasicBlock)


@torch.no_grad()
def _compare(model: nn.Module, encoder: nn.Module) -> float:
    """Largest relative difference of the pooled features of an image."""
    encoder = copy.copy(encoder)
    encoder.out_indices, encoder.gap_before_final_norm = (3, ), True
    image = torch.randn(
        1, 3, 97, 64, generator=torch.Generator().manual_seed(0))
    features = encoder(image)[-1]
    if features.ndim == 4:  # a ConvNeXt pools itself
        features = features.mean((2, 3))
    return relative_difference(model(image), features)
