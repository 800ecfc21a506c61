# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Fail early when a required checkpoint is missing or incomplete."""
from collections.abc import Iterator, Mapping, Sequence

from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import nn

from ..errors import UserError
from ..trained.checkpoint import Checkpoint, rename_encoder
from ..trained.encoder import PretrainedEncoder
from ..trained.normalization import Normalization, require_close
from ..utils.modules import unwrap
from ..utils.settings import type_name
from .run_state import RunState

_HINT = ('. Allow missing or other tensors with --cfg-options '
         "default_hooks.checkpoint_match.allow_missing=\"['PREFIX.']\"")


@HOOKS.register_module()
class StrictLoadHook(Hook):
    """Raise if a checkpoint does not fill the whole model, or has more layers.

    mmengine loads what fits and only warns about the rest. This hook also
    refuses weights that are not finite and checkpoints of models with another
    input normalization, including those of :class:`PretrainedEncoder`.

    Args:
        allow_missing (str | Sequence[str]): Prefixes of tensors that may be
            missing, additional or of another shape, e.g. ``'head.'`` for new
            classes; ``''`` allows everything. Defaults to ().
        allow_other_normalization (bool): Whether the model may normalize its
            input differently. Defaults to False.
        required (str): If given, the run must start from a checkpoint; the
            text says of which run, for the message. Defaults to ''.
    """

    # After hooks that rearrange what was loaded, such as EMAHook.
    priority = 'VERY_LOW'

    def __init__(self,
                 allow_missing: str | Sequence[str] = (),
                 allow_other_normalization: bool = False,
                 required: str = '') -> None:
        if isinstance(allow_missing, str):
            allow_missing = [allow_missing]
        self.allow_missing = tuple(allow_missing)
        self.allow_other_normalization = allow_other_normalization
        self.required = required
        self._encoders: tuple[str, ...] = ()  # prefixes of their tensors

    def before_run(self, runner: Runner) -> None:
        """Require a checkpoint, and skip loading an encoder it contains.

        Raises:
            UserError: If there is no checkpoint to load or resume, or an
                encoder was trained with another input normalization.
        """
        state = RunState.of(runner)
        # Training initializes weights anew, whatever was loaded before.
        loaded = state.has_loaded and not state.is_training
        if self.required and not state.load_from and not loaded:
            raise UserError(
                'this config starts from a checkpoint of '
                f'{self.required}: set --cfg-options load_from=FILE')
        if not state.is_training:
            return
        model = unwrap(runner.model)
        for name, module, settings in _encoders(model):
            if state.load_from:
                self._encoders += (f'{name}.', )
                module.is_init = True
                if not state.resumes:
                    runner.logger.info(
                        f"model.{name} is that of '{state.load_from}', not "
                        f"of '{settings.get('checkpoint')}'")
            elif settings.get('checkpoint') and not settings.get(
                    'allow_other_normalization'):
                trained = Checkpoint.read_once(settings['checkpoint'])
                require_close(trained.normalization, Normalization.of(model),
                              trained.path)

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Raise UserError if what was loaded doesn't fit the model."""
        model = unwrap(runner.model)
        rename_encoder(checkpoint.get('state_dict', checkpoint), model)
        trained = Checkpoint(checkpoint, RunState.of(runner).load_from)
        needed = model.state_dict()
        found = trained.weights_of_parts(needed)
        for name in {*needed, *found}:
            is_optional = (name.startswith(self.allow_missing)
                           and not name.startswith(self._encoders))
            if is_optional and (getattr(needed.get(name), 'shape', None)
                                != getattr(found.get(name), 'shape', None)):
                needed.pop(name, None)
                found.pop(name, None)
        trained.require_fit(needed, found, type(model).__name__, _HINT)
        trained.warn_of_other_settings(runner.cfg)
        if not self.allow_other_normalization:
            require_close(trained.normalization, Normalization.of(model),
                          trained.path)


def _encoders(
        model: nn.Module) -> Iterator[tuple[str, nn.Module, Mapping]]:
    """Modules that load a pre-trained encoder: name, module, settings."""
    for name, module in model.named_modules():
        settings = getattr(module, 'init_cfg', None)
        if isinstance(settings, dict) and (
                type_name(settings) == PretrainedEncoder.__name__):
            yield name, module, settings
