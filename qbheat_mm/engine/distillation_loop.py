# Copyright (c) QB-Heat MM authors. All rights reserved.
"""How long distillation takes."""
import math

from mmengine.registry import LOOPS
from mmengine.runner import EpochBasedTrainLoop


@LOOPS.register_module()
class DistillationLoop(EpochBasedTrainLoop):
    """Train for some epochs, or more if they are less than some steps.

    Args:
        *args: See ``EpochBasedTrainLoop``; ``max_epochs`` is the upper limit.
        epochs (int): Number of epochs.
        steps (int): Number of steps that few images take more epochs for.
        **kwargs: See ``EpochBasedTrainLoop``.
    """

    def __init__(self, *args, epochs: int, steps: int, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        length = max(len(self.dataloader), 1)  # the runner rejects 0
        most = self._max_epochs
        self._max_epochs = min(most, max(epochs, math.ceil(steps / length)))
        self._max_iters = self._max_epochs * length
        if self._max_epochs < most:
            self.runner.logger.info(
                f'train_cfg.max_epochs: {most} -> {self._max_epochs} '
                f'(distillation: {epochs} epochs, or {steps} steps)')
