# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What a checkpoint says about the run that wrote it.

The configuration inside a checkpoint is Python text. It is parsed and never
run, since a file may come from anywhere.
"""
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from ..config_text import read_settings
from ..errors import UserError


@dataclass(frozen=True)
class Pixels:
    """How pictures become the input of a network.

    Attributes:
        mean (tuple[float, ...]): Subtracted from each channel, 0-255; empty
            for no normalisation.
        std (tuple[float, ...]): Divisor of each channel.
        rgb (bool): Whether channels are turned from BGR, as mmcv reads them,
            to RGB.
    """
    mean: tuple[float, ...]
    std: tuple[float, ...]
    rgb: bool

    def __str__(self) -> str:
        order = 'RGB' if self.rgb else 'BGR'
        if not self.mean:
            return f'{order} without normalisation'
        return f'{order}, mean {_brief(self.mean)}, std {_brief(self.std)}'

    def is_near(self, other: 'Pixels') -> bool:
        """Whether both are the same to one per cent, as sources differ."""
        ours, theirs = ((*p.mean, *p.std) for p in (self, other))
        return self.rgb == other.rgb and len(ours) == len(theirs) and all(
            math.isclose(a, b, rel_tol=0.01, abs_tol=0.01)
            for a, b in zip(ours, theirs))


def describe_backbone(checkpoint: Any) -> str:
    """Name the backbone that a checkpoint of mmengine was trained with.

    Args:
        checkpoint (Any): As loaded; it need not hold ``meta.cfg``.

    Returns:
        str: ``"MobileFormer(arch='mf-285m')"``, or ``''`` if unknown.
    """
    for backbone in find_settings(settings_of(checkpoint), 'backbone'):
        return name_backbone(backbone)
    return ''


def name_backbone(settings: Mapping) -> str:
    """Name a backbone by its settings, as ``"ResNet(depth=50)"``."""
    known = ', '.join(f'{key}={settings[key]!r}' for key in ('arch', 'depth')
                      if isinstance(settings.get(key), str | int))
    return f"{settings.get('type', '')}({known})"


def trained_pixels(checkpoint: Any) -> Pixels | None:
    """The pixels that a checkpoint of mmengine was trained with.

    Returns:
        Pixels | None: None where the checkpoint does not say so, as one of
        another program.
    """
    return pixels_in(settings_of(checkpoint))


def pixels_in(settings: Any) -> Pixels | None:
    """The pixels that the settings of a run ask for, None if they do not."""
    for given in find_settings(settings, 'data_preprocessor'):
        mean, std = given.get('mean') or (), given.get('std') or ()
        rgb = any(given.get(key) is True for key in ('bgr_to_rgb', 'to_rgb'))
        try:
            return Pixels(tuple(map(float, mean)), tuple(map(float, std)), rgb)
        except (TypeError, ValueError):
            return None
    return None


def pixels_of(preprocessor: nn.Module | None) -> Pixels | None:
    """The pixels of a built data preprocessor of mmpretrain or mmdet.

    Returns:
        Pixels | None: None for a preprocessor of another kind.
    """
    if getattr(preprocessor, 'mean', None) is None:
        mean = std = ()
    else:
        mean, std = (tuple(value.flatten().tolist())
                     for value in (preprocessor.mean, preprocessor.std))
    for flag in ('to_rgb', '_channel_conversion'):
        if hasattr(preprocessor, flag):
            return Pixels(mean, std, bool(getattr(preprocessor, flag)))
    return None


def require_pixels(trained: Pixels | None, given: Pixels | None,
                   checkpoint: str, way_out: str) -> None:
    """Raise where a network would see other pixels than it was trained with.

    Args:
        trained (Pixels, optional): Those of the checkpoint, if known.
        given (Pixels, optional): Those of the configuration, if known.
        checkpoint (str): The file, for the message.
        way_out (str): The setting that allows it all the same.

    Raises:
        UserError: If they differ.
    """
    if None in (trained, given) or trained.is_near(given):
        return
    raise UserError(
        f"checkpoint '{checkpoint}' was trained with other pixels ({trained}) "
        f'than this configuration gives ({given}): set mean, std and channel '
        'order of model.data_preprocessor as there (bgr_to_rgb in mmdet, '
        f'to_rgb in mmpretrain), or, if that is meant, {way_out}')


def settings_of(checkpoint: Any) -> dict:
    """The configuration inside a checkpoint, as far as it is plain.

    Returns:
        dict: Empty where there is none.
    """
    meta = checkpoint.get('meta') if isinstance(checkpoint, Mapping) else None
    if not isinstance(meta, Mapping):
        return {}
    return read_settings(meta.get('refused_cfg', meta.get('cfg')))


def classes_in(checkpoint: Any) -> tuple[str, ...]:
    """The classes of the data that a checkpoint was trained on.

    Returns:
        tuple[str, ...]: Empty where it does not say.
    """
    found = checkpoint
    for name in ('meta', 'dataset_meta', 'classes'):
        found = found.get(name) if isinstance(found, Mapping) else None
    return tuple(map(str, found)) if isinstance(found, list | tuple) else ()


def find_settings(settings: Any, name: str) -> Iterator[dict]:
    """Dictionaries of a name, those of the model before others."""
    if not isinstance(settings, dict):
        return
    if isinstance(settings.get('model'), dict):
        yield from find_settings(settings['model'], name)
    if isinstance(settings.get(name), dict):
        yield settings[name]
    for value in settings.values():
        yield from find_settings(value, name)


def _brief(values: tuple[float, ...]) -> str:
    return '/'.join(f'{value:g}' for value in values)
