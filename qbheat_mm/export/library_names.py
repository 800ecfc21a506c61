# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Encoders of mmpretrain and mmdet under torchvision's and timm's names.

Both libraries name the layers of ResNet as mmpretrain does, but for deep
stems and average pools before a shortcut, which torchvision has not. Their
ConvNeXt have names of their own. The last linear layer is not there: no
pre-training has one.
"""
import re
from collections.abc import Mapping

from torch import Tensor, nn

from ..errors import UserError

#: Names of a pattern and what they become; the first that fits counts.
_Names = tuple[tuple[str, str], ...]

_SAME: _Names = ((r'(conv1|bn1|layer\d)\.(.+)', r'\1.\2'), )
# timm numbers the layers of a deep stem through; the last norm is `bn1`.
_DEEP_STEM: _Names = (
    (r'stem\.0\.conv\.(.+)', r'conv1.0.\1'),
    (r'stem\.0\.bn\.(.+)', r'conv1.1.\1'),
    (r'stem\.1\.conv\.(.+)', r'conv1.3.\1'),
    (r'stem\.1\.bn\.(.+)', r'conv1.4.\1'),
    (r'stem\.2\.conv\.(.+)', r'conv1.6.\1'),
    (r'stem\.2\.bn\.(.+)', r'bn1.\1'),
    # mmdet has no modules of convolution and norm there.
    (r'stem\.(0|1|3|4|6)\.(.+)', r'conv1.\1.\2'),
    (r'stem\.7\.(.+)', r'bn1.\1'))
# timm keeps the place of the pool also where there is none, at stride 1.
_AVG_DOWN: _Names = (
    (r'layer1\.0\.downsample\.0\.(.+)', r'layer1.0.downsample.1.\1'),
    (r'layer1\.0\.downsample\.1\.(.+)', r'layer1.0.downsample.2.\1'))
_CONVNEXT: dict[str, _Names] = dict(
    torchvision=(
        (r'downsample_layers\.0\.(.+)', r'features.0.\1'),
        (r'downsample_layers\.1\.(.+)', r'features.2.\1'),
        (r'downsample_layers\.2\.(.+)', r'features.4.\1'),
        (r'downsample_layers\.3\.(.+)', r'features.6.\1'),
        (r'stages\.0\.(.+)', r'features.1.\1'),
        (r'stages\.1\.(.+)', r'features.3.\1'),
        (r'stages\.2\.(.+)', r'features.5.\1'),
        (r'stages\.3\.(.+)', r'features.7.\1'),
        (r'norm3\.(.+)', r'classifier.0.\1')),
    timm=(
        (r'downsample_layers\.0\.(.+)', r'stem.\1'),
        (r'downsample_layers\.(\d)\.(.+)', r'stages.\1.downsample.\2'),
        (r'stages\.(\d)\.(.+)', r'stages.\1.blocks.\2'),
        (r'norm3\.(.+)', r'head.norm.\1')))
_CONVNEXT_BLOCK: dict[str, _Names] = dict(
    torchvision=(
        (r'gamma', 'layer_scale'), (r'depthwise_conv\.(.+)', r'block.0.\1'),
        (r'norm\.(.+)', r'block.2.\1'),
        (r'pointwise_conv1\.(.+)', r'block.3.\1'),
        (r'pointwise_conv2\.(.+)', r'block.5.\1')),
    timm=(
        (r'gamma', 'gamma'), (r'depthwise_conv\.(.+)', r'conv_dw.\1'),
        (r'norm\.(.+)', r'norm.\1'), (r'grn\.gamma', 'mlp.grn.weight'),
        (r'grn\.beta', 'mlp.grn.bias'),
        (r'pointwise_conv1\.(.+)', r'mlp.fc1.\1'),
        (r'pointwise_conv2\.(.+)', r'mlp.fc2.\1')))
LIBRARIES = tuple(_CONVNEXT)
_RESNETS = ('ResNet', 'ResNetV1c', 'ResNetV1d', 'ResNeXt')


def rename(encoder: nn.Module, library: str) -> dict[str, Tensor]:
    """The weights of an encoder under the names of another library.

    Args:
        encoder (nn.Module): A ResNet, ResNeXt or ConvNeXt of mmpretrain or
            mmdet.
        library (str): ``'torchvision'`` or ``'timm'``.

    Returns:
        dict[str, Tensor]: All of the library's network but ``fc``, or the
        last linear layer of its head.

    Raises:
        UserError: If the library has no such network.
    """
    kind = type(encoder).__name__
    if kind not in (*_RESNETS, 'ConvNeXt'):
        raise UserError(
            f'{library} has no {kind}: --format {library} takes '
            f'{", ".join(_RESNETS)} and ConvNeXt; every encoder can be had as '
            '--format safetensors, pt2 or onnx')
    wrong_in, renamed = ((_wrong_in_resnet, _resnet) if kind in _RESNETS else
                         (_wrong_in_convnext, _convnext))
    wrong = wrong_in(encoder, library)
    if wrong:
        raise UserError(f'{library} has no {kind} with {", ".join(wrong)}: '
                        'take --format safetensors, pt2 or onnx')
    return renamed(encoder, library)


def _resnet(encoder: nn.Module, library: str) -> dict[str, Tensor]:
    names = _SAME
    if library == 'timm':
        names = _DEEP_STEM + names
        if encoder.avg_down:
            names = _AVG_DOWN + names
    return _renamed(encoder.state_dict(), names)


def _convnext(encoder: nn.Module, library: str) -> dict[str, Tensor]:
    block = tuple(
        (rf'(stages\.\d\.\d+)\.{ours}', rf'\1.{_after_one(theirs)}')
        for ours, theirs in _CONVNEXT_BLOCK[library])
    inner = _renamed({
        name: tensor for name, tensor in encoder.state_dict().items()
        # Norms of further outputs, which only detectors have.
        if not re.match(r'norm[012]\.', name)
    }, block + ((r'(.+)', r'\1'), ))
    state = _renamed(inner, _CONVNEXT[library])
    for name, tensor in state.items():
        if name.endswith('layer_scale'):
            state[name] = tensor[:, None, None]
        elif tensor.ndim == 4 and re.search(
                r'\.(block\.[35]|mlp\.fc[12])\.weight', name):
            state[name] = tensor[:, :, 0, 0]  # a 1x1 convolution
        elif '.grn.' in name:
            state[name] = tensor.flatten()
    return state


def _after_one(theirs: str) -> str:
    """A replacement behind a first group."""
    return theirs.replace(r'\1', r'\2')


def _renamed(state: Mapping[str, Tensor],
             names: _Names) -> dict[str, Tensor]:
    renamed = {}
    for name, tensor in state.items():
        for ours, theirs in names:
            if match := re.fullmatch(ours, name):
                renamed[match.expand(theirs)] = tensor
                break
        else:
            raise UserError(
                f'there is no place for tensor {name} in that library: its '
                'network has none such; take --format safetensors, pt2 or '
                'onnx')
    return renamed


def _wrong_in_resnet(encoder: nn.Module, library: str) -> list[str]:
    """Why the library's network would compute something else."""
    wrong = [
        f'{name}={getattr(encoder, name)!r}'
        for name, value in dict(num_stages=4, strides=(1, 2, 2, 2),
                                dilations=(1, 1, 1, 1),
                                base_channels=64).items()
        if _as_tuple(getattr(encoder, name)) != value]
    if encoder.style != 'pytorch' and hasattr(encoder.layer1[0], 'conv3'):
        wrong.append(f'style={encoder.style!r}')
    if library == 'torchvision':
        wrong += [f'{name}=True' for name in ('deep_stem', 'avg_down')
                  if getattr(encoder, name)]
        if encoder.stem_channels != 64:
            wrong.append(f'stem_channels={encoder.stem_channels}')
    if not hasattr(encoder, 'bn1') and not encoder.deep_stem:
        wrong.append('a norm that is no BatchNorm')
    return wrong


def _wrong_in_convnext(encoder: nn.Module, library: str) -> list[str]:
    """Why the library's network would compute something else."""
    wrong = []
    if not hasattr(encoder, 'norm3') or encoder.num_stages != 4:
        wrong.append('no norm behind its fourth stage')
    if library == 'torchvision' and encoder.stages[0][0].grn is not None:
        wrong.append('use_grn=True, its second version')
    if library == 'torchvision' and encoder.stages[0][0].gamma is None:
        wrong.append('no layer scale')
    if encoder.downsample_layers[0][0].stride != (4, 4):
        wrong.append(f'patches of {encoder.downsample_layers[0][0].stride}')
    return wrong


def _as_tuple(value):
    return tuple(value) if isinstance(value, list) else value
