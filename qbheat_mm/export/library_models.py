# Copyright (c) QB-Heat MM authors. All rights reserved.
"""torchvision's and timm's networks for an encoder, and a comparison."""
from collections.abc import Callable
from types import ModuleType

import torch
from torch import Tensor, nn

from ..errors import UserError
from .comparing import TOLERANCE, relative_difference

_SIDES = (97, 64)


def torchvision_model(encoder: nn.Module) -> nn.Module:
    """The network of torchvision that an encoder is the body of.

    Returns:
        nn.Module: With random weights; nothing in place of the last linear
        layer.
    """
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


def timm_model(encoder: nn.Module) -> nn.Module:
    """The network of timm that an encoder is the body of.

    Raises:
        ImportError: If timm is not installed.
    """
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


BUILDERS: dict[str, Callable[[nn.Module], nn.Module]] = dict(
    torchvision=torchvision_model, timm=timm_model)
_LAST_STAGE = dict(
    ResNet=dict(ours='layer4', torchvision='layer4', timm='layer4'),
    ConvNeXt=dict(ours='stages.3', torchvision='features.7',
                  timm='stages.3'))


def compare_with_library(encoder: nn.Module, state: dict[str, Tensor],
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
        ImportError: If the library is not installed.
        UserError: If the weights do not fit or the features differ.
    """
    model = BUILDERS[library](encoder).eval()
    name = type(encoder).__name__
    try:
        model.load_state_dict(state, strict=True)
    except RuntimeError as error:
        reason = ' '.join(str(error).split())[:200]
        raise UserError(f'{library} cannot load this {name}: {reason}; take '
                        '--format safetensors, pt2 or onnx') from error
    stages = _LAST_STAGE['ConvNeXt' if name == 'ConvNeXt' else 'ResNet']
    image = torch.randn(
        1, 3, *_SIDES, generator=torch.Generator().manual_seed(0))
    difference = relative_difference(
        _output_of(model, stages[library], image),
        _output_of(encoder, stages['ours'], image))
    if not difference <= TOLERANCE:
        raise UserError(
            f"{library}'s features of this {name} differ by {difference:.1e} "
            'of their largest value: its settings (norm_cfg, act_cfg) are '
            f'none that {library} has; take --format safetensors, pt2 or onnx')
    return difference


@torch.no_grad()
def _output_of(model: nn.Module, part: str, image: Tensor) -> Tensor:
    """What a part of a network gives for an image."""
    seen = []
    handle = model.get_submodule(part).register_forward_hook(
        lambda module, inputs, output: seen.append(output))
    try:
        model(image)
    finally:
        handle.remove()
    return seen[0]


def _block(encoder: nn.Module, resnet: ModuleType) -> type[nn.Module]:
    """The block of a library's ResNet that an encoder is made of."""
    return (resnet.Bottleneck if hasattr(encoder.layer1[0], 'conv3')
            else resnet.BasicBlock)


def _groups(encoder: nn.Module) -> tuple[int, int]:
    """Groups of a block's convolutions, and width of each, 64 in a ResNet."""
    return (getattr(encoder, 'groups', 1),
            getattr(encoder, 'width_per_group', 64))
