# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Weights of mmpretrain's and mmdet's encoders for torchvision and timm.

What a library cannot do is not listed here: its own network loads the weights
strictly and must compute the same features.
"""
import re

import torch
from torch import Tensor, nn

from ..errors import UserError
from .network import TOLERANCE, relative_difference

KINDS = ('ResNet', 'ResNetV1c', 'ResNetV1d', 'ResNeXt', 'ConvNeXt')

#: Patterns and replacements, applied one after the other. Both libraries name
#: the layers of a ResNet as mmpretrain does, but for timm's deep stem.
_RESNET = dict(torchvision=(), timm=(
    (r'^stem\.0\.conv', 'conv1.0'), (r'^stem\.0\.bn', 'conv1.1'),
    (r'^stem\.1\.conv', 'conv1.3'), (r'^stem\.1\.bn', 'conv1.4'),
    (r'^stem\.2\.conv', 'conv1.6'), (r'^stem\.2\.bn', 'bn1'),
    (r'^stem\.7\.', 'bn1.'),  # mmdet's stem is one sequence
    (r'^stem\.', 'conv1.')))
#: timm has the average pool also where the stride is 1.
_TIMM_AVG_DOWN = (
    (r'^layer1\.0\.downsample\.1', 'layer1.0.downsample.2'),
    (r'^layer1\.0\.downsample\.0', 'layer1.0.downsample.1'))
_CONVNEXT = dict(
    torchvision=(
        *((rf'^downsample_layers\.{i}', f'features.{2 * i}')
          for i in range(4)),
        *((rf'^stages\.{i}', f'features.{2 * i + 1}') for i in range(4)),
        (r'\.gamma$', '.layer_scale'), (r'\.depthwise_conv', '.block.0'),
        (r'(features\.[1357]\.\d+)\.norm', r'\1.block.2'),
        (r'\.pointwise_conv1', '.block.3'),
        (r'\.pointwise_conv2', '.block.5'),
        (r'^norm3', 'classifier.0')),
    timm=(
        (r'^stages\.(\d)', r'stages.\1.blocks'),
        (r'^downsample_layers\.0', 'stem'),
        (r'^downsample_layers\.(\d)', r'stages.\1.downsample'),
        (r'\.grn\.gamma', '.mlp.grn.weight'),
        (r'\.grn\.beta', '.mlp.grn.bias'),
        (r'\.depthwise_conv', '.conv_dw'),
        (r'\.pointwise_conv(\d)', r'.mlp.fc\1'),
        (r'^norm3', 'head.norm')))


def convert(encoder: nn.Module,
            library: str) -> tuple[dict[str, Tensor], float]:
    """Rename an encoder's weights, and compare the library's features.

    Args:
        encoder (nn.Module): A ResNet, ResNeXt or ConvNeXt of mmpretrain or
            mmdet, in evaluation mode.
        library (str): ``'torchvision'`` or ``'timm'``.

    Returns:
        tuple[dict[str, Tensor], float]: All weights but those of the last
        linear layer, and the largest difference of the last stage's maps of
        a random image over their largest value.

    Raises:
        UserError: If the library is not installed, has no such network, or
            computes other features.
    """
    kind = type(encoder).__name__
    way_out = 'take --format safetensors, pt2 or onnx'
    if kind not in KINDS:
        raise UserError(
            f'{library} has no {kind}, only {", ".join(KINDS)}: {way_out}')
    try:
        model = (_torchvision if library == 'torchvision' else _timm)(encoder)
    except ImportError as error:
        raise UserError(
            f'--format {library} compares the weights with {library}, which '
            f'cannot be imported ({error}): pip install {library}') from error
    state = _rename(encoder, library, model.state_dict())
    try:
        model.load_state_dict(state, strict=True)
    except RuntimeError as error:
        raise UserError(f'{library} cannot load this {kind}: '
                        f'{" ".join(str(error).split())[:200]}; {way_out}'
                        ) from error
    ours, theirs = 'layer4', 'layer4'
    if kind == 'ConvNeXt':
        ours = 'stages.3'
        theirs = 'features.7' if library == 'torchvision' else ours
    difference = relative_difference(
        _output_of(model.eval(), theirs), _output_of(encoder, ours))
    if not difference <= TOLERANCE:
        raise UserError(
            f"{library}'s features of this {kind} differ by {difference:.1e} "
            'of their largest value, since its settings have no counterpart '
            f'there: {way_out}')
    return state, difference


def _rename(encoder: nn.Module, library: str,
            wanted: dict[str, Tensor]) -> dict[str, Tensor]:
    if type(encoder).__name__ == 'ConvNeXt':
        table = _CONVNEXT[library]
    else:
        table = _RESNET[library]
        if library == 'timm' and encoder.avg_down:
            table += _TIMM_AVG_DOWN
    state = {}
    for name, tensor in encoder.state_dict().items():
        if re.match(r'norm[012]\.', name):
            continue  # of other outputs, which detectors have
        for pattern, replacement in table:
            name = re.sub(pattern, replacement, name)
        # Layer scale, and 1x1 convolutions as linear layers.
        if name in wanted and wanted[name].numel() == tensor.numel():
            tensor = tensor.reshape(wanted[name].shape)
        state[name] = tensor
    return state


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
def _output_of(model: nn.Module, part: str) -> Tensor:
    """What a part makes of a random image."""
    seen = []
    handle = model.get_submodule(part).register_forward_hook(
        lambda module, inputs, output: seen.append(output))
    try:
        model(torch.randn(
            1, 3, 97, 64, generator=torch.Generator().manual_seed(0)))
    finally:
        handle.remove()
    return seen[0]
