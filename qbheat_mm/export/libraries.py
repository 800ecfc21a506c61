# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Encoders of mmpretrain and mmdet as torchvision and timm know them.

What a library cannot do is not listed here: its own network loads the weights
strictly and must compute the same features.
"""
import re

import torch
from torch import Tensor, nn

from ..errors import UserError
from .compare import TOLERANCE, relative_difference

RESNETS = ('ResNet', 'ResNetV1c', 'ResNetV1d', 'ResNeXt')
LIBRARIES = ('torchvision', 'timm')
_WAY_OUT = 'take --format safetensors, pt2 or onnx'

#: Patterns and replacements, applied one after the other. Both libraries name
#: the layers of a ResNet as mmpretrain does, but for timm's deep stem.
_TIMM_RESNET = (
    (r'^stem\.0\.conv', 'conv1.0'), (r'^stem\.0\.bn', 'conv1.1'),
    (r'^stem\.1\.conv', 'conv1.3'), (r'^stem\.1\.bn', 'conv1.4'),
    (r'^stem\.2\.conv', 'conv1.6'), (r'^stem\.2\.bn', 'bn1'),
    (r'^stem\.7\.', 'bn1.'),  # mmdet's stem is one sequence
    (r'^stem\.', 'conv1.'))
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
#: Modules whose outputs are compared: of the encoder, and of each library.
_LAST_STAGE = dict(
    ResNet=dict(ours='layer4', torchvision='layer4', timm='layer4'),
    ConvNeXt=dict(ours='stages.3', torchvision='features.7',
                  timm='stages.3'))


def rename(encoder: nn.Module, library: str) -> dict[str, Tensor]:
    """The weights of an encoder under the names of another library.

    Args:
        encoder (nn.Module): A ResNet, ResNeXt or ConvNeXt of mmpretrain or
            mmdet.
        library (str): ``'torchvision'`` or ``'timm'``.

    Returns:
        dict[str, Tensor]: All but the last linear layer.

    Raises:
        UserError: If the library has no such network.
    """
    kind = type(encoder).__name__
    if kind not in (*RESNETS, 'ConvNeXt'):
        raise UserError(f'{library} has no {kind}, only {", ".join(RESNETS)} '
                        f'and ConvNeXt: {_WAY_OUT}')
    # Norms of other outputs, which detectors have.
    state = {name: tensor for name, tensor in encoder.state_dict().items()
             if not re.match(r'norm[012]\.', name)}
    if kind == 'ConvNeXt':
        table = _CONVNEXT[library]
    elif library == 'timm':
        table = _TIMM_RESNET + (_TIMM_AVG_DOWN if encoder.avg_down else ())
    else:
        table = ()
    renamed = {}
    for name, tensor in state.items():
        for pattern, replacement in table:
            name = re.sub(pattern, replacement, name)
        renamed[name] = tensor
    if kind == 'ConvNeXt':  # layer scale, 1x1 convolutions as linear layers
        wanted = library_model(encoder, library).state_dict()
        renamed = {
            name: tensor.reshape(wanted[name].shape)
            if name in wanted and tensor.numel() == wanted[name].numel()
            else tensor for name, tensor in renamed.items()}
    return renamed


def library_model(encoder: nn.Module, library: str) -> nn.Module:
    """The library's network that an encoder is the body of.

    Returns:
        nn.Module: With random weights and no last linear layer.

    Raises:
        UserError: If the library is not installed.
    """
    try:
        build = _torchvision if library == 'torchvision' else _timm
        return build(encoder).eval()
    except ImportError as error:
        raise UserError(
            f'--format {library} compares the weights with {library}, which '
            f'cannot be imported ({error}): pip install {library}') from error


def _torchvision(encoder: nn.Module) -> nn.Module:
    from torchvision.models import convnext, resnet
    if type(encoder).__name__ == 'ConvNeXt':
        widths = list(encoder.channels)
        model = convnext.ConvNeXt([
            convnext.CNBlockConfig(width, following, depth)
            for width, following, depth in zip(
                widths, [*widths[1:], None], encoder.depths)])
        model.classifier[2] = nn.Identity()
        return model
    groups, width = _groups(encoder)
    model = resnet.ResNet(
        _block(encoder, resnet), list(encoder.stage_blocks), groups=groups,
        width_per_group=width)
    model.fc = nn.Identity()
    return model


def _timm(encoder: nn.Module) -> nn.Module:
    from timm.models import convnext, resnet
    if type(encoder).__name__ == 'ConvNeXt':
        block = encoder.stages[0][0]
        return convnext.ConvNeXt(
            depths=tuple(encoder.depths), dims=tuple(encoder.channels),
            use_grn=block.grn is not None,
            ls_init_value=None if block.gamma is None else 1e-6,
            num_classes=0)
    groups, width = _groups(encoder)
    return resnet.ResNet(
        _block(encoder, resnet), tuple(encoder.stage_blocks), num_classes=0,
        cardinality=groups, base_width=width,
        stem_width=encoder.stem_channels // 2 if encoder.deep_stem else 64,
        stem_type='deep' if encoder.deep_stem else '',
        avg_down=encoder.avg_down)


def _block(encoder: nn.Module, resnet: object) -> type[nn.Module]:
    return (resnet.Bottleneck if hasattr(encoder.layer1[0], 'conv3')
            else resnet.BasicBlock)


def _groups(encoder: nn.Module) -> tuple[int, int]:
    """Groups of a block's convolutions, and width of each, 64 in a ResNet."""
    return (getattr(encoder, 'groups', 1),
            getattr(encoder, 'width_per_group', 64))


def compare_features(encoder: nn.Module, state: dict[str, Tensor],
                     library: str) -> float:
    """Load weights strictly into the library's network and compare features.

    Args:
        encoder (nn.Module): In evaluation mode.
        state (dict[str, Tensor]): Its weights under the library's names.
        library (str): ``'torchvision'`` or ``'timm'``.

    Returns:
        float: Largest difference of the last stage's maps of a random image
        over their largest value.

    Raises:
        UserError: If the weights do not fit or the features differ.
    """
    kind = type(encoder).__name__
    model = library_model(encoder, library)
    try:
        model.load_state_dict(state, strict=True)
    except RuntimeError as error:
        raise UserError(f'{library} cannot load this {kind}: '
                        f'{" ".join(str(error).split())[:200]}; {_WAY_OUT}'
                        ) from error
    stage = _LAST_STAGE['ConvNeXt' if kind == 'ConvNeXt' else 'ResNet']
    image = torch.randn(
        1, 3, 97, 64, generator=torch.Generator().manual_seed(0))
    difference = relative_difference(
        _output_of(model, stage[library], image),
        _output_of(encoder, stage['ours'], image))
    if not difference <= TOLERANCE:
        raise UserError(
            f"{library}'s features of this {kind} differ by {difference:.1e} "
            'of their largest value, since its settings have no counterpart '
            f'there: {_WAY_OUT}')
    return difference


@torch.no_grad()
def _output_of(model: nn.Module, part: str, image: Tensor) -> Tensor:
    seen = []
    handle = model.get_submodule(part).register_forward_hook(
        lambda module, inputs, output: seen.append(output))
    try:
        model(image)
    finally:
        handle.remove()
    return seen[0]
