# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Few parameter groups for fused optimizers."""
from mmengine.optim import DefaultOptimWrapperConstructor
from mmengine.registry import OPTIM_WRAPPER_CONSTRUCTORS
from torch import nn


@OPTIM_WRAPPER_CONSTRUCTORS.register_module()
class GroupedOptimWrapperConstructor(DefaultOptimWrapperConstructor):
    """Build an optimizer with one group for all parameters of equal settings.

    mmengine's constructor makes a group for each parameter, and fused
    optimizers launch a kernel for each group. Takes its ``paramwise_cfg``,
    or with ``layer_decay_rate`` that of mmpretrain's
    ``LearningRateDecayOptimWrapperConstructor``.
    """

    def add_params(self, params: list[dict], module: nn.Module,
                   **kwargs) -> None:
        """Add the groups of a model to ``params``."""
        constructor = DefaultOptimWrapperConstructor
        if 'layer_decay_rate' in self.paramwise_cfg:
            # Importing it takes seconds.
            constructor = OPTIM_WRAPPER_CONSTRUCTORS.get(
                'mmpretrain.LearningRateDecayOptimWrapperConstructor')
        single: list[dict] = []
        constructor(dict(self.optim_wrapper_cfg, optimizer=self.optimizer_cfg),
                    self.paramwise_cfg).add_params(single, module, **kwargs)
        params += _merge(single)


def _merge(groups: list[dict]) -> list[dict]:
    """Merge groups of one parameter, in the order of their first one."""
    if len({group['params'][0] for group in groups}) < len(groups):
        return groups  # PyTorch refuses a parameter in two groups
    merged: list[dict] = []
    known: list[dict] = []
    for group in groups:
        settings = dict(group)
        del settings['params']
        settings.pop('param_name', None)
        if settings not in known:
            known.append(settings)
            merged.append(dict(settings, params=[]))
        merged[known.index(settings)]['params'] += group['params']
    return merged
