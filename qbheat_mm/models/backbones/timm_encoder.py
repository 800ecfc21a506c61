# Copyright (c) QB-Heat MM authors. All rights reserved.
"""CNNs of timm as backbones of mmpretrain and mmdet."""
from collections.abc import Sequence
from copy import deepcopy

import torch
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.nn.modules.batchnorm import _BatchNorm

from ...errors import UserError


@MODELS.register_module()
class TimmEncoder(BaseModule):
    """A network of timm without its classifier.

    Outputs are those of timm's ``forward_intermediates``, one for each
    stride of a CNN and for each block of a vision transformer. The last one
    is that of ``forward_features``, and so includes the last 1x1 convolution
    of an EfficientNet and the last norm of a transformer.

    Layers that no requested output depends on, such as those between pooling
    and classifier of a MobileNetV3, stay in the state dict but are not
    trained, so DistributedDataParallel finds no unused parameters.

    Args:
        name (str): Name in timm, e.g. ``'resnet18'``.
        out_indices (Sequence[int]): The outputs to return; negative indices
            count from the end. Defaults to (-1, ).
        init_cfg (dict, optional): Initialization; timm's if None.
        norm_eval (bool): Keep all BN layers in eval mode. Defaults to False.
        **options: Further arguments of ``timm.create_model``.

    Raises:
        UserError: If timm is missing.
    """

    def __init__(self,
                 name: str,
                 out_indices: Sequence[int] = (-1, ),
                 init_cfg: dict | None = None,
                 norm_eval: bool = False,
                 **options) -> None:
        super().__init__(init_cfg)
        try:
            import timm
        except ImportError as error:
            raise UserError(f"the network '{name}' is timm's: "
                            'pip install timm') from error
        self.network = timm.create_model(name, num_classes=0, **options)
        self.num_outputs = len(self.network.feature_info)
        self.out_indices = tuple(out_indices)
        self.norm_eval = norm_eval
        side = max(self.network.pretrained_cfg['input_size'])
        for parameter in unused_parameters(self, side):
            parameter.requires_grad_(False)

    def set_input_size(self, size: tuple[int, int]) -> None:
        """Resize position embeddings for images of a height and width."""
        if hasattr(self.network, 'set_input_size'):
            self.network.set_input_size(img_size=size)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Images (B, 3, H, W) to maps (B, C, H / stride, W / stride)."""
        # On a CPU, depthwise convolutions train faster in this layout.
        last, maps = self.network.forward_intermediates(
            x.contiguous(memory_format=torch.channels_last))
        if getattr(last, 'ndim', 0) == 3:  # tokens of a transformer
            patches = last[:, getattr(self.network, 'num_prefix_tokens', 0):]
            if patches.shape[1] == maps[-1].shape[2:].numel():
                last = patches.transpose(1, 2).reshape(maps[-1].shape)
        shape, sides = getattr(last, 'shape', ()), maps[-1].shape[2:]
        if shape[2:] == sides:  # some networks return a list
            maps[-1] = last
        elif shape[1:3] == sides:  # Swin: channels last
            maps[-1] = last.permute(0, 3, 1, 2)
        # mmcv's RoIAlign misreads channels_last (mmcv issue 2203).
        return tuple(maps[i].contiguous() for i in self.out_indices)

    def train(self, mode: bool = True) -> 'TimmEncoder':
        """Set the mode."""
        super().train(mode)
        if self.norm_eval:
            for module in self.modules():
                if isinstance(module, _BatchNorm):
                    module.eval()
        return self


def unused_parameters(module: nn.Module, side: int) -> list[nn.Parameter]:
    """Find the parameters that no output of a backbone depends on.

    Args:
        module (nn.Module): Takes images, and returns a tuple of tensors.
        side (int): Height and width of images that it accepts.
    """
    # The device "meta" builds the graph, but computes no values.
    shadow = deepcopy(module).to('meta').requires_grad_()
    with torch.enable_grad():
        outs = shadow(torch.zeros(2, 3, side, side, device='meta'))
    used = _leaves([out.grad_fn for out in outs])
    return [parameter for parameter, twin
            in zip(module.parameters(), shadow.parameters())
            if id(twin) not in used]


def _leaves(nodes: list[Node]) -> set[int]:
    """Ids of the tensors that a graph begins with.

    A backward pass would start threads, which a forked process lacks.
    """
    leaves, seen = set(), set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaves.add(id(getattr(node, 'variable', None)))
        for following, _ in node.next_functions:
            nodes.append(following)
    return leaves
