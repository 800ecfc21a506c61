# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A run that needs a checkpoint starts from it, entirely, or not at all."""
from collections.abc import Sequence

from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import nn

from ...arguments import BOOL, TEXT, TEXT_OR_TEXTS, as_texts, checked
from ...errors import UserError
from ...utils.settings import type_name
from ..matching import Mismatch, compare, parts_of
from ..origin import (
    describe_backbone,
    pixels_of,
    require_pixels,
    trained_pixels,
)
from ..pretrained_encoder import PretrainedEncoder
from ..resuming import find_checkpoint_to_resume
from ..weights import named_weights, require_possible
from ..wrapping import unwrap
from .resume_hook import is_about_to_train

_SETTING = 'default_hooks.checkpoint_match'


@HOOKS.register_module()
class RequireCheckpointHook(Hook):
    """Refuse to train from scratch what continues another run.

    Args:
        origin (str): What the checkpoint comes from, for the message, as
            ``'the tran-1 probing run'``.
    """

    @checked(origin=TEXT)
    def __init__(self, origin: str = 'the run that it continues') -> None:
        self.origin = origin

    def before_run(self, runner: Runner) -> None:
        """Look for a checkpoint to load or to resume.

        Raises:
            UserError: If there is none, in training as in testing.
        """
        training = is_about_to_train(runner)
        # Training initialises the weights anew, whatever was loaded by hand.
        if _source(runner) or (runner._has_loaded and not training):
            return
        if not training:
            raise UserError('load_from is not set, and random weights are '
                            'not worth a test: set it with --cfg-options '
                            'load_from=FILE')
        if runner._resume:
            # mmengine would start from scratch where there is nothing.
            raise UserError(
                f"nothing to resume in '{runner.work_dir}', and this "
                f'configuration starts from a checkpoint of {self.origin}: '
                'set it with --cfg-options load_from=FILE, without --resume')
        raise UserError(
            'load_from is not set, and this configuration starts from a '
            f'checkpoint of {self.origin}: set it with --cfg-options '
            'load_from=FILE')


@HOOKS.register_module()
class StrictLoadHook(Hook):
    """Refuse a checkpoint that does not fill the whole model.

    mmengine loads what fits and warns about the rest, when it trains
    (``load_from``), resumes and tests. Weights that are no finite numbers
    are refused as well, and those of a network that was trained with other
    pixels, also where they enter by :class:`PretrainedEncoder`.

    Since the checkpoint fills the model, the encoder is taken from it; where
    other weights of the encoder are named, a warning says that they are not.

    Args:
        allow_missing (str | Sequence[str]): Beginnings of names that may be
            absent from the checkpoint or of another shape there, as
            ``'head.'`` when a classifier is trained for new classes.
            ``('',)`` allows everything. Defaults to ().
        allow_other_pixels (bool): Whether the model may get pixels of
            another mean, deviation or channel order than the checkpoint was
            trained with. Defaults to False.
    """

    # After hooks that rearrange what was loaded, as the one for averaged
    # weights does.
    priority = 'VERY_LOW'

    @checked(allow_missing=TEXT_OR_TEXTS, allow_other_pixels=BOOL)
    def __init__(self,
                 allow_missing: str | Sequence[str] = (),
                 allow_other_pixels: bool = False) -> None:
        self.allow_missing = as_texts(allow_missing)
        self.allow_other_pixels = allow_other_pixels
        # Names of the encoders that the checkpoint has to fill.
        self._encoders: tuple[str, ...] = ()
        # Names of encoders, and the files of weights that they began with.
        self._replaced: dict[str, str] = {}

    def before_run(self, runner: Runner) -> None:
        """Ask for no encoder where the checkpoint brings it."""
        if not is_about_to_train(runner) or not _source(runner):
            return
        if not runner._resume:
            self._replaced = {
                f'{name}.': module.init_cfg['checkpoint']
                for name, module in unwrap(runner.model).named_modules()
                if _awaits_encoder(module, any_file=True)
                and module.init_cfg.get('checkpoint')
            }
        encoders = {
            f'{name}.': module
            for name, module in unwrap(runner.model).named_modules()
            if _awaits_encoder(module, any_file=runner._resume)
        }
        for module in encoders.values():
            module.init_cfg = None
        self._encoders = tuple(encoders)

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Compare the model with what was loaded.

        Args:
            runner (Runner): The runner with its model.
            checkpoint (dict): The checkpoint.

        Raises:
            UserError: If tensors are missing or of another shape or kind, if
                their values are no finite numbers, or if the network was
                trained with other pixels.
        """
        model = unwrap(runner.model)
        source = _source(runner) or 'that was given'
        network = model.state_dict()
        found = named_weights(checkpoint)
        # More than needed does no harm here: a pre-training decoder is
        # left behind on purpose.
        found = {name: found[name] for name in network if name in found}
        mismatch = compare(network, found).without(
            self.allow_missing, needed=self._encoders)
        if mismatch:
            raise UserError(_describe(mismatch, model, source, checkpoint))
        require_possible(found, source)
        for encoder, file in self._replaced.items():
            if any(name.startswith(encoder) for name in found):
                runner.logger.warning(
                    f"checkpoint '{source}' (load_from) brings its own "
                    f"encoder, in place of '{file}' "
                    f'(model.{encoder}init_cfg.checkpoint): leave out one of '
                    'the two')
        if not self.allow_other_pixels:
            require_pixels(
                trained_pixels(checkpoint), _pixels_of(model), source,
                f'add --cfg-options {_SETTING}.allow_other_pixels=True')

    def before_train(self, runner: Runner) -> None:
        """Compare the pixels that the encoders come from with the model's.

        Raises:
            UserError: If they differ.
        """
        model = unwrap(runner.model)
        for module in model.modules():
            require_pixels(
                getattr(module, 'pretrained_pixels', None), _pixels_of(model),
                getattr(module, 'pretrained_from', ''), 'add --cfg-options '
                'model.backbone.init_cfg.allow_other_pixels=True')


def _describe(mismatch: Mismatch, model: nn.Module, source: str,
              checkpoint: dict) -> str:
    """One line for a checkpoint that does not fit, with the ways out."""
    origin = describe_backbone(checkpoint)
    origin = f', trained with {origin},' if origin else ''
    wrong = [*mismatch.missing, *mismatch.shapes]
    ways = ['give a checkpoint of this configuration']
    # Another encoder is another model, and altered tensors are damage.
    if wrong and not any(name.startswith('backbone.') for name in wrong):
        ways += [
            'for its encoder alone set model.backbone.init_cfg.checkpoint '
            'instead of load_from', 'name what may differ with --cfg-options '
            f'{_SETTING}.allow_missing='
            f'"{parts_of(wrong, model.state_dict())}"'
        ]
    return (f"checkpoint '{source}'{origin} does not fit the model "
            f'{type(model).__name__}: {mismatch}; {", or ".join(ways)}')


def _source(runner: Runner) -> str | None:
    """The checkpoint that the runner is going to load, or has loaded."""
    if runner._load_from is None and runner._resume:
        runner._load_from = find_checkpoint_to_resume(runner.work_dir)
    return runner._load_from


def _awaits_encoder(module: nn.Module, any_file: bool) -> bool:
    """Whether a module waits for the weights of a pre-trained encoder.

    Args:
        module (nn.Module): Part of the model.
        any_file (bool): Whether also one that has been given a checkpoint.
    """
    settings = getattr(module, 'init_cfg', None)
    return (isinstance(settings, dict)
            and type_name(settings) == PretrainedEncoder.__name__
            and (any_file or settings.get('checkpoint') is None))


def _pixels_of(model: nn.Module):
    return pixels_of(getattr(model, 'data_preprocessor', None))
