# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Let the model of a pre-training config learn from a teacher."""
from mmengine.config import Config, ConfigDict
from mmengine.logging import print_log

from ..errors import UserError
from ..models.selfsup import Distillation
from ..utils.settings import type_name
from .encoder_target import EncoderTarget

#: What ``teacher_method`` may be.
METHODS = ('Distillation', 'QBHeat', 'RandomMasking')


def use_teacher(cfg: Config) -> None:
    """Predict the features of the encoder in the file ``cfg.teacher``.

    ``cfg.teacher_method`` names the model, by default that of the config.
    ``cfg.model.target_generator`` may have further settings of
    :class:`EncoderTarget`. ``cfg.distillation`` has the epochs and steps of
    ``DistillationLoop``.

    Args:
        cfg (Config): Changed in place, if ``cfg.teacher`` is set.

    Raises:
        UserError: If the config's model doesn't predict features, or the
            file is no encoder.
    """
    path = cfg.get('teacher')
    if path is None:
        return
    cfg.pop('teacher')
    kind = cfg.pop('teacher_method', None) or type_name(cfg.model)
    if kind not in METHODS:
        raise UserError(f"teacher='{path}': teacher_method or model.type is "
                        f'{kind!r}, not one of {", ".join(METHODS)}')
    given = cfg.model.get('target_generator') or {}
    if type_name(given) not in ('', EncoderTarget.__name__):
        given = {}
    target = ConfigDict({**given, 'type': 'EncoderTarget', 'encoder': path})
    options = {name: value for name, value in target.items()
               if name != 'type'}
    teacher = EncoderTarget(**options).load_teacher()
    if kind == Distillation.__name__:
        if cfg.model.get('with_pixels'):
            raise UserError('model.with_pixels=True needs teacher_method='
                            'QBHeat or RandomMasking: Distillation masks '
                            'nothing')
        cfg.model = _distillation(cfg.model, teacher.channels)
        if 'distillation' in cfg and 'max_epochs' in cfg.train_cfg:
            cfg.train_cfg.update(type='DistillationLoop', **cfg.distillation)
    else:
        cfg.model.type = kind
        pixels = 3 * cfg.model.head.patch_size**2
        cfg.model.neck.out_channels = teacher.channels + (
            pixels if cfg.model.get('with_pixels') else 0)
    cfg.model.target_generator = target
    print_log(f"teacher='{path}': {kind} predicts {teacher.channels} channels "
              f'of {teacher.encoder.name} at {teacher.size[0]}x'
              f'{teacher.size[1]} pixels')


def _distillation(model: ConfigDict, channels: int) -> ConfigDict:
    """Keep the encoder of a model, and its input."""
    kept = {name: value for name, value in model.items()
            if name in ('backbone', 'data_preprocessor', 'init_cfg',
                        'in_channels')}
    if 'predictor' in model:
        kept['in_channels'] = model.predictor.in_channels
    return ConfigDict(kept, type=Distillation.__name__,
                      out_channels=channels)
