# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Let the model of a pre-training config learn from a teacher."""
import os

from mmengine.config import Config, ConfigDict
from mmengine.logging import print_log

from ..errors import MissingFileError, UserError
from ..utils.settings import type_name

#: Models that predict the features of whole images, or of masked patches.
DISTILLATION = 'Distillation'
MULTI_SCALE = 'MultiScaleDistillation'
WHOLE = (DISTILLATION, MULTI_SCALE)
MASKED = ('QBHeat', 'RandomMasking')
METHODS = (*WHOLE, *MASKED)
#: Settings of a model that distillation has as well.
_KEPT = {
    DISTILLATION: ('backbone', 'data_preprocessor', 'init_cfg',
                   'in_channels'),
    MULTI_SCALE: ('backbone', 'data_preprocessor', 'init_cfg', 'pairs')}


def use_teacher(cfg: Config) -> None:
    """Predict the features of the encoder in the file ``cfg.teacher``.

    ``cfg.teacher_method`` names the model; defaults to the config's.
    ``cfg.model.target_generator`` may have further settings of
    :class:`EncoderTarget`. ``cfg.distillation`` has the epochs and steps of
    ``DistillationLoop``.

    Args:
        cfg (Config): Changed in place.

    Raises:
        UserError: If the file doesn't exist, or the config's model doesn't
            predict features.
    """
    path = os.fspath(cfg.teacher)
    _require_file(path)
    cfg.pop('teacher')
    method = cfg.pop('teacher_method', None) or type_name(cfg.model)
    _require_method(cfg.model, method, path)
    target = _target_generator(cfg.model, path)
    if method == MULTI_SCALE and target.get('out_indices') is not None:
        method = DISTILLATION  # all of them teach the student's last map
    if method != MULTI_SCALE and cfg.model.get('pairs') is not None:
        raise UserError(f'model.pairs needs teacher_method={MULTI_SCALE}, '
                        'and no out_indices of the teacher')
    if method in WHOLE:
        model = ConfigDict(type=method)
        for name in _KEPT[method]:
            if name in cfg.model:
                model[name] = cfg.model[name]
        cfg.model = model
        if 'distillation' in cfg and 'max_epochs' in cfg.train_cfg:
            cfg.train_cfg.update(type='DistillationLoop', **cfg.distillation)
    else:
        cfg.model.type = method
        cfg.model.neck.pop('out_channels', None)
    cfg.model.target_generator = target
    print_log(f"teacher='{path}': {method} predicts its features")


def _require_file(path: str) -> None:
    if '://' not in path and not os.path.isfile(os.path.expanduser(path)):
        raise MissingFileError(f"teacher='{path}' does not exist (looked in "
                               f"'{os.getcwd()}')")


def _require_method(model: ConfigDict, method: str, path: str) -> None:
    """Raise UserError unless a method can train the encoder of a model."""
    given = type_name(model)
    if method not in METHODS:
        raise UserError(f"teacher='{path}': teacher_method or model.type is "
                        f'{method!r}, not one of {", ".join(METHODS)}')
    possible = METHODS if method in WHOLE else MASKED
    if given not in possible:
        raise UserError(
            f"teacher='{path}': {method} needs a config with model.type="
            f'{" or ".join(possible)}, and this one has {given!r}')
    if method in WHOLE and model.get('with_pixels'):
        raise UserError('model.with_pixels=True needs teacher_method=QBHeat '
                        f'or RandomMasking: {method} masks nothing')


def _target_generator(model: ConfigDict, path: str) -> ConfigDict:
    """Return the settings of a teacher, with those that a config gives."""
    given = model.get('target_generator') or {}
    if type_name(given) not in ('', 'EncoderTarget'):  # such as HOG
        given = {}
    return ConfigDict({**given, 'type': 'EncoderTarget', 'encoder': path})
