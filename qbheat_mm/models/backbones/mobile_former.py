# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Mobile-Former as a backbone of mmpretrain and mmdet."""
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import chain

import torch
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ...errors import UserError
from ..layers import LiteBottleneck, MobileFormerBlock, MobileToFormer
from ..layers.mobile import ConvBN, conv_bn
from .mobile_former_archs import ARCHS

_BLOCKS = ('lite', 'lite-down', 'mf', 'mf-down')
_REQUIRED = {'stem', 'tokens', 'stages', 'conv'}
_OPTIONAL = {'groups', 'final_bridge'}


@MODELS.register_module()
class MobileFormer(BaseModule):
    """Mobile-Former: a MobileNet with a few global tokens in parallel.

    QB-Heat's three encoders (appendix, "Specification of Mobile-Former
    encoders") have stride 16; the seven variants of Mobile-Former V1 have
    stride 32.

    Outputs 0 ... S-1 are those of the S stages, S is the last 1x1 convolution
    (with BN and ReLU6; the features that QB-Heat predicts from), S+1 the
    tokens. QB-Heat's encoders have S = 4 stages with strides 2, 4, 8, 16.

    Weights that no requested output depends on stay in the state dict but
    are not trained, so DistributedDataParallel finds no unused parameters.

    Args:
        arch (str | dict): ``'mf-285m'``, ``'mf-1.0g'``, ``'mf-3.7g'``
            (QB-Heat), ``'mf-26m'``, ``'mf-52m'``, ``'mf-96m'``,
            ``'mf-151m'``, ``'mf-214m'``, ``'mf-294m'``, ``'mf-508m'`` (V1),
            or a dict with

            - **stem** (int): channels of the stride-2 stem,
            - **tokens** (tuple[int, int]): number and width of the tokens,
            - **stages** (list[list[tuple]]): rows (block, #exp, #out) with
              the blocks ``'lite'``, ``'lite-down'``, ``'mf'``, ``'mf-down'``,
            - **conv** (int): channels of the last 1x1 convolution,
            - **groups** (int): groups of all 1x1 convolutions, with channel
              shuffles if > 1; defaults to 1,
            - **final_bridge** (bool): another Mobile->Former after the last
              block, as in V1; defaults to False.
        out_indices (Sequence[int]): The outputs to return, in this order;
            negative indices count from the end. Defaults to None, the 1x1
            convolution only.
        frozen_stages (int): -1 freezes nothing, 0 the stem and the tokens,
            k also the first k stages, S + 1 everything (5 for QB-Heat's
            encoders). Frozen parts get no gradient, build no graph and stay
            in eval mode. Defaults to -1.
        norm_eval (bool): Keep all BN layers in eval mode. Defaults to False.
        drop_path_rate (float): Stochastic depth of the last block, growing
            linearly over the blocks. Defaults to 0.
        init_cfg (dict | list[dict], optional): Initialization; Kaiming's for
            convolutions and a truncated normal for linear layers if None.

    Raises:
        UserError: If ``arch``, a block, an output or a stage is unknown.
    """

    def __init__(self,
                 arch: str | dict = 'mf-285m',
                 out_indices: Sequence[int] | None = None,
                 frozen_stages: int = -1,
                 norm_eval: bool = False,
                 drop_path_rate: float = 0.,
                 init_cfg: dict | list[dict] | None = None) -> None:
        super().__init__(init_cfg or [
            dict(type='Kaiming', layer='Conv2d'),
            dict(type='TruncNormal', layer='Linear', std=.02),
            dict(type='Constant', layer=['_BatchNorm', 'LayerNorm'], val=1)
        ])
        self.arch = self._resolve_arch(arch)
        self.num_stages = len(self.arch['stages'])
        self.num_blocks = sum(map(len, self.arch['stages']))
        self.out_indices = self._resolve_out_indices(out_indices)
        if not -1 <= frozen_stages <= self.num_stages + 1:
            raise UserError(
                f'frozen_stages={frozen_stages} is not between -1 and '
                f'{self.num_stages + 1} (which freezes all of {arch})')
        self.frozen_stages = frozen_stages
        self.norm_eval = norm_eval
        self._build(drop_path_rate)
        self._set_trainable()

    def _build(self, drop_path_rate: float) -> None:
        """Create the layers of ``arch``."""
        num_tokens, token_dims = self.arch['tokens']
        groups = self.arch.get('groups', 1)
        channels = self.arch['stem']
        self.tokens = nn.Parameter(torch.randn(num_tokens, token_dims))
        self.stem = ConvBN(
            *conv_bn(3, channels, 3, stride=2), nn.ReLU6())
        self.stages = nn.ModuleList()
        depth, last = 0, max(self.num_blocks - 1, 1)
        for rows in self.arch['stages']:
            stage = nn.ModuleList()
            for block, mid_channels, out_channels in rows:
                stage.append(
                    self._make_block(block, channels, mid_channels,
                                     out_channels, token_dims, groups,
                                     drop_path_rate * depth / last))
                channels = out_channels
                depth += 1
            self.stages.append(stage)
        self.final_bridge = (
            MobileToFormer(channels, token_dims)
            if self.arch.get('final_bridge', False) else None)
        self.conv = ConvBN(
            nn.ChannelShuffle(groups) if groups > 1 else nn.Identity(),
            *conv_bn(channels, self.arch['conv'], groups=groups),
            nn.ReLU6())

    @staticmethod
    def _resolve_arch(arch: str | dict) -> dict:
        if isinstance(arch, str):
            if arch not in ARCHS:
                raise UserError(f'arch={arch!r} is unknown; known are '
                                f'{", ".join(ARCHS)}, or a dict')
            return ARCHS[arch]
        missing = _REQUIRED - set(arch)
        unknown = set(arch) - _REQUIRED - _OPTIONAL
        if missing or unknown:
            raise UserError(
                f'arch={arch} needs {", ".join(sorted(_REQUIRED))} and may '
                f'have {", ".join(sorted(_OPTIONAL))}; '
                f'missing: {sorted(missing)}, unknown: {sorted(unknown)}')
        return arch

    @property
    def num_outputs(self) -> int:
        """Number of outputs that ``out_indices`` chooses from."""
        return self.num_stages + 2

    def _resolve_out_indices(self,
                             out_indices: Sequence[int] | None) -> tuple:
        if out_indices is None:
            return (self.num_stages, )
        if isinstance(out_indices, int):
            out_indices = (out_indices, )
        for index in out_indices:
            if not -self.num_outputs <= index < self.num_outputs:
                raise UserError(
                    f'out_indices={tuple(out_indices)}: there is no output '
                    f'{index}; 0 to {self.num_stages - 1} are the stages, '
                    f'{self.num_stages} the 1x1 convolution, '
                    f'{self.num_stages + 1} the tokens')
        return tuple(index % self.num_outputs for index in out_indices)

    @staticmethod
    def _make_block(block: str, in_channels: int, mid_channels: int,
                    out_channels: int, token_dims: int, groups: int,
                    drop_path_rate: float) -> nn.Module:
        if block not in _BLOCKS:
            raise UserError(f'block {block!r} in arch.stages is unknown; '
                            f'known are {", ".join(_BLOCKS)}')
        downsample = block.endswith('-down')
        if block.startswith('lite'):
            return LiteBottleneck(in_channels, mid_channels, out_channels,
                                  2 if downsample else 1, groups,
                                  drop_path_rate)
        return MobileFormerBlock(in_channels, mid_channels, out_channels,
                                 token_dims, downsample, groups,
                                 drop_path_rate)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Encode images of any size.

        Args:
            x (Tensor): (B, 3, H, W).

        Returns:
            tuple[Tensor]: One entry for each of ``out_indices``: features
            (B, C, H / stride, W / stride), or tokens (B, T, d).
        """
        outs = {}
        tokens = self.tokens.expand(x.shape[0], -1, -1)
        with self._grad_unless_frozen(0):
            # The bridges read pixels as rows without copying.
            x = self.stem(x.contiguous(memory_format=torch.channels_last))
        for i, stage in enumerate(self.stages[:self._num_used_stages()]):
            with self._grad_unless_frozen(i + 1):
                for block in stage:
                    if isinstance(block, LiteBottleneck):
                        x = block(x)
                    else:
                        x, tokens = block(x, tokens)
            outs[i] = x
        conv_index, token_index = self.num_stages, self.num_stages + 1
        with self._grad_unless_frozen(self.num_stages + 1):
            if token_index in self.out_indices:
                if self.final_bridge is not None:
                    tokens = self.final_bridge(x, tokens)
                outs[token_index] = tokens
            if conv_index in self.out_indices:
                outs[conv_index] = self.conv(x)
        # mmcv's RoIAlign misreads channels_last (mmcv issue 2203).
        return tuple(outs[i].contiguous() for i in self.out_indices)

    def _num_used_stages(self) -> int:
        return min(max(self.out_indices) + 1, self.num_stages)

    def _grad_unless_frozen(self, depth: int):
        return torch.no_grad() if depth <= self.frozen_stages \
            else nullcontext()

    def _parts(self, depth: int) -> list[nn.Module]:
        """Return the modules at a depth: 0 stem, k stage k, S + 1 the rest."""
        if depth == 0:
            return [self.stem]
        if depth <= self.num_stages:
            return [self.stages[depth - 1]]
        return [m for m in (self.final_bridge, self.conv) if m is not None]

    def _set_trainable(self) -> None:
        """Freeze parts, and those that no output depends on."""
        for part in self._unused_parts():
            part.requires_grad_(False)
        for depth in range(self.frozen_stages + 1):
            for part in self._parts(depth):
                part.requires_grad_(False)
        if self.frozen_stages >= 0:
            self.tokens.requires_grad_(False)

    def _unused_parts(self) -> list:
        """Return modules and parameters that no output depends on."""
        asked = set(self.out_indices)
        used_stages = self.stages[:self._num_used_stages()]
        unused = list(self.stages[len(used_stages):])
        if self.num_stages not in asked:
            unused.append(self.conv)
        tokens_asked = self.num_stages + 1 in asked
        if self.final_bridge is not None and not tokens_asked:
            unused.append(self.final_bridge)
        last_maps = {self.num_stages - 1, self.num_stages}
        if (tokens_asked and self.final_bridge is None
                and asked.isdisjoint(last_maps)):
            unused += self._behind_the_tokens()
        used_layers = set(map(type, used_stages.modules()))
        if not tokens_asked and MobileFormerBlock not in used_layers:
            unused.append(self.tokens)
        return unused

    def _behind_the_tokens(self) -> list[nn.Module]:
        """Return modules whose maps reach neither tokens nor outputs."""
        stages = [i for i in self.out_indices if i < self.num_stages]
        first = max(stages, default=-1) + 1
        blocks = list(chain.from_iterable(self.stages[first:]))
        unused = []
        while blocks and not isinstance(blocks[-1], MobileFormerBlock):
            unused.append(blocks.pop())
        if blocks:
            last = blocks[-1]
            unused += [last.mobile, last.slopes, last.former_to_mobile]
        return unused

    def train(self, mode: bool = True) -> 'MobileFormer':
        """Set the mode; frozen stages stay in eval mode."""
        super().train(mode)
        for depth in range(self.frozen_stages + 1):
            for part in self._parts(depth):
                part.eval()
        if self.norm_eval:
            for module in self.modules():
                if isinstance(module, _BatchNorm):
                    module.eval()
        return self

    def get_layer_depth(self,
                        param_name: str,
                        prefix: str = '') -> tuple[int, int]:
        """Return a parameter's depth for layer-wise learning-rate decay.

        Args:
            param_name (str): Name of the parameter in the model.
            prefix (str): Prefix of this backbone's names.

        Returns:
            tuple[int, int]: The depth (0 for stem and tokens, k for the k-th
            block, then the last 1x1 convolution, then everything outside
            the backbone) and the number of depths.
        """
        num_layers = self.num_blocks + 3
        if not param_name.startswith(prefix):
            return num_layers - 1, num_layers
        parts = param_name[len(prefix):].split('.')
        if parts[0] in ('stem', 'tokens'):
            return 0, num_layers
        if parts[0] == 'stages':
            stage, block = int(parts[1]), int(parts[2])
            before = sum(len(rows) for rows in self.arch['stages'][:stage])
            return before + block + 1, num_layers
        return self.num_blocks + 1, num_layers
