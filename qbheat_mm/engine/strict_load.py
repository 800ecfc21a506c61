# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Fail early when a required checkpoint is missing or incomplete."""
from collections.abc import Iterator, Sequence

from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import BaseLoop, Runner
from torch import nn

from ..errors import UserError
from ..models.layers.normalize import Normalization
from ..utils.modules import unwrap
from ..utils.settings import type_name
from .checkpoint import (
    input_normalization,
    require_match,
    require_normalization,
    weights,
)
from .pretrained_encoder import PretrainedEncoder

_HINT = ('. Allow missing or other tensors with --cfg-options '
         "default_hooks.checkpoint_match.allow_missing=\"['PREFIX.']\"")


@HOOKS.register_module()
class RequireCheckpointHook(Hook):
    """Fail unless the run starts from a checkpoint.

    Args:
        origin (str): Where the checkpoint comes from, for the message.
    """

    def __init__(self, origin: str = 'the run that it continues') -> None:
        self.origin = origin

    def before_run(self, runner: Runner) -> None:
        """Raise UserError if there is no checkpoint to load or resume."""
        # Training initializes weights anew, whatever was loaded before.
        loaded = runner._has_loaded and not is_training(runner)
        if not runner._load_from and not loaded:
            raise UserError(
                'this config starts from a checkpoint of '
                f'{self.origin}: set --cfg-options load_from=FILE')


@HOOKS.register_module()
class StrictLoadHook(Hook):
    """Raise if a checkpoint does not fill the whole model.

    mmengine loads what fits and only warns about the rest. This hook also
    refuses weights that are not finite and checkpoints of models with another
    input normalization, including those of :class:`PretrainedEncoder`.

    Args:
        allow_missing (str | Sequence[str]): Prefixes of tensors that may be
            missing or of another shape, e.g. ``'head.'`` for new classes;
            ``''`` allows everything. Defaults to ().
        allow_other_normalization (bool): Whether the model may normalize its
            input differently. Defaults to False.
    """

    # After hooks that rearrange what was loaded, such as EMAHook.
    priority = 'VERY_LOW'

    def __init__(self,
                 allow_missing: str | Sequence[str] = (),
                 allow_other_normalization: bool = False) -> None:
        self.allow_missing = ((allow_missing, ) if isinstance(
            allow_missing, str) else tuple(allow_missing))
        self.allow_other_normalization = allow_other_normalization
        self._encoders: tuple[str, ...] = ()

    def before_run(self, runner: Runner) -> None:
        """Skip loading an encoder that the checkpoint contains."""
        if not runner._load_from or not is_training(runner):
            return
        for name, module in _encoders(unwrap(runner.model)):
            self._encoders += (f'{name}.', )
            module.init_cfg = None

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Compare the model with what was loaded.

        Raises:
            UserError: If it doesn't fit.
        """
        model, source = unwrap(runner.model), str(runner._load_from)
        found = weights(checkpoint)
        needed = {
            name: tensor for name, tensor in model.state_dict().items()
            if not name.startswith(self.allow_missing)
            or name.startswith(self._encoders)
            or getattr(found.get(name), 'shape', None) == tensor.shape}
        # Fine-tuning leaves e.g. a pre-training decoder behind.
        found = {name: found[name] for name in needed if name in found}
        require_match(needed, found, source, type(model).__name__, checkpoint,
                      _HINT)
        if not self.allow_other_normalization:
            require_normalization(input_normalization(checkpoint),
                                  _normalization(model), source)

    def before_train(self, runner: Runner) -> None:
        """Compare the normalization of the encoders with the model's."""
        model = unwrap(runner.model)
        for module in model.modules():
            require_normalization(
                getattr(module, 'pretrained_normalization', None),
                _normalization(model), getattr(module, 'pretrained_from', ''))


def is_training(runner: Runner) -> bool:
    """Whether ``before_run`` is called by ``Runner.train``.

    Unlike ``test`` and ``val``, it builds the training loop first.
    """
    return isinstance(runner._train_loop, BaseLoop)


def _encoders(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Modules that load a pre-trained encoder, with their names."""
    for name, module in model.named_modules():
        settings = getattr(module, 'init_cfg', None)
        if isinstance(settings, dict) and (
                type_name(settings) == PretrainedEncoder.__name__):
            yield name, module


def _normalization(model: nn.Module) -> Normalization | None:
    return Normalization.of(getattr(model, 'data_preprocessor', None))
