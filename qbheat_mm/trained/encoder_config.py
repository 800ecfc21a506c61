# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Describe and build the encoder of a config."""
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mmengine.registry import MODELS, DefaultScope
from torch import nn

from ..errors import UserError, one_line
from ..models.backbones import MobileFormer
from ..utils.settings import (
    backbone_name,
    backbone_settings,
    find_settings,
    training_size,
    type_name,
    unfrozen,
)
from .checkpoint import Checkpoint
from .normalization import input_normalization

# A registry imports unknown names: only classes of the toolboxes are built
# from the config stored in a checkpoint.
_CLASS = re.compile(r'((mmengine|mmcv|mmpretrain|mmdet)\.)?[A-Z]\w*')


class EncoderConfig:
    """An encoder's settings, input normalization and training size.

    Args:
        settings (Mapping): A whole config, as plain dicts.
        source (str): Its name, for messages.

    Attributes:
        kind, name (str): E.g. ``'ResNet'`` and ``'ResNet(depth=50)'``.
        given (dict): ``model.backbone``.
        settings (dict): Arguments of ``MODELS.build`` for the backbone alone,
            without its ``FrozenBackbone``, if any.
        normalization (Normalization): Input normalization.
        size (tuple[int, int] | None): Height and width of the training
            images, if fixed.

    Raises:
        UserError: If the config lacks the encoder or its normalization.
    """

    def __init__(self, settings: Mapping, source: str) -> None:
        given = next(find_settings(settings, 'backbone'), None)
        normalization = input_normalization(settings)
        if given is None or normalization is None:
            missing = ('model.backbone' if given is None else
                       'mean, std and channel order of the images')
            raise UserError(f'{source} does not contain {missing}: give its '
                            'config as well, as config=FILE')
        self.source = source
        self.given = given
        self.name = backbone_name(settings)
        self.normalization = normalization
        self.size = training_size(settings)
        self.settings = backbone_settings(dict(
            default_scope=settings.get('default_scope'),
            model=dict(backbone=unfrozen(given))))
        self.kind = type_name(self.settings)

    @classmethod
    def stored_in(cls, checkpoint: Checkpoint) -> 'EncoderConfig':
        """Describe the encoder of a checkpoint by the config stored in it.

        Raises:
            UserError: If it lacks the encoder or its normalization, or names
                types that are not classes of the toolboxes.
        """
        described = cls(checkpoint.config, f"checkpoint '{checkpoint.path}'")
        for kind in _types(described.given):
            if not (isinstance(kind, str) and _CLASS.fullmatch(kind)):
                raise UserError(
                    f"{described.source} names type={kind!r}, which is not a "
                    "toolbox's class: pass its config, as config=FILE")
        return described

    def build(self, out_indices: Sequence[int] | None = None,
              **options: Any) -> nn.Module:
        """Build the backbone, without weights.

        Args:
            out_indices (Sequence[int], optional): Its outputs. Defaults to
                the last features and the tokens of a ``MobileFormer``, and to
                the setting of others.
            **options: Further arguments of the backbone.

        Raises:
            UserError: If it cannot be built.
        """
        if self.kind == MobileFormer.__name__ and out_indices is None:
            out_indices = (-2, -1)
        if out_indices is not None:
            options['out_indices'] = tuple(out_indices)
        try:
            with DefaultScope.overwrite_default_scope('mmengine'):
                return MODELS.build({**self.settings, **options})
        # Constructors raise errors of any type.
        except Exception as error:
            raise UserError(f'{self.source}: cannot build {self.kind}: '
                            f'{one_line(error)}') from error


def _types(settings: Any) -> Iterator[Any]:
    if isinstance(settings, Mapping):
        if 'type' in settings:
            yield settings['type']
        settings = list(settings.values())
    if isinstance(settings, list | tuple):
        for value in settings:
            yield from _types(value)
