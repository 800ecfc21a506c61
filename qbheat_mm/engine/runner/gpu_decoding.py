# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Turn a pre-training recipe into one that decodes on the GPU."""
from mmengine.config import Config
from mmengine.device import get_device

from ...datasets.decoding import why_not_on
from ...errors import UserError
from ...utils.settings import type_name

#: What is replaced; the flip may be absent.
_STEPS = ('LoadImageFromFile', 'RandomResizedCrop', 'RandomFlip',
          'PackInputs')
_DONE = 'PackEncodedCrop'
_PREPROCESSOR = 'SelfSupDataPreprocessor'


def fit_decoding(cfg: Config) -> str:
    """Decode on the GPU where there is one that can.

    Args:
        cfg (Config): Changed in place, unless it is one that a run has
            written after it was changed.

    Returns:
        str: What was done, for the log.

    Raises:
        UserError: The pipeline does more than crop and flip.
    """
    device = get_device()
    reason = 'there is no GPU' if device != 'cuda' else why_not_on(device)
    pipeline = cfg.train_dataloader.dataset.get('pipeline') or [{}]
    if type_name(pipeline[-1]) == _DONE:
        return ('gpu_decode: JPEG files are decoded on '
                f'{"the CPU, by the training process" if reason else device}')
    _parts(cfg)  # what cannot be is refused on every machine
    if reason:
        return f'gpu_decode: the CPU decodes, for {reason}'
    decode_on_device(cfg)
    return f'gpu_decode: JPEG files are decoded on {device}'


def decode_on_device(cfg: Config) -> None:
    """Leave decoding, cropping and flipping to the data preprocessor.

    Args:
        cfg (Config): Changed in place.

    Raises:
        UserError: The pipeline does more than crop and flip.
    """
    load, crop, flip_prob = _parts(cfg)
    cfg.train_dataloader.dataset.pipeline = [
        dict(load, deferred=True),
        dict(crop, type=_DONE, flip_prob=flip_prob)]
    cfg.train_dataloader.collate_fn = dict(type='pseudo_collate')
    cfg.model.data_preprocessor.update(
        type='DecodingDataPreprocessor', size=crop['scale'],
        interpolation=crop.get('interpolation', 'bicubic'))


def _parts(cfg: Config) -> tuple[dict, dict, float | None]:
    """Loading, crop, and the probability of a flip, None without one."""
    pipeline = cfg.train_dataloader.dataset.get('pipeline') or ()
    preprocessor = type_name(cfg.model.get('data_preprocessor') or {})
    names = tuple(map(type_name, pipeline))
    ours = all(step.get('_scope_') == 'qbheat_mm' for step in pipeline[:2])
    if (names not in (_STEPS, (*_STEPS[:2], _STEPS[3])) or not ours
            or preprocessor != _PREPROCESSOR):
        raise UserError(
            'gpu_decode=True takes the training pipeline of pre-training, '
            f'{", ".join(_STEPS)} before a {_PREPROCESSOR}, and this is '
            f'{", ".join(names)} before a {preprocessor}: leave it out')
    load, crop, *rest = pipeline
    if len(rest) == 1:
        return load, crop, None
    flip = rest[0]
    if flip.get('direction', 'horizontal') != 'horizontal' or not isinstance(
            flip.get('prob'), int | float):
        raise UserError(f'gpu_decode=True flips sideways alone, and this is '
                        f'{dict(flip)}: leave it out')
    return load, crop, flip['prob']
