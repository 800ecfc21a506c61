# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What settings of mmengine, mmdet, mmpretrain and torch may be.

The packages themselves take many wrong values in silence (``max_epochs=0``
trains nothing, a negative deviation turns images into negatives) or fail far
from the cause. Our own parts check their arguments themselves.
"""
import logging
import os.path as osp
import re
from collections.abc import Iterator, Mapping
from math import inf

from mmengine.config import Config
from mmengine.runner.priority import Priority

from ..arguments import (
    BOOL,
    INT,
    MAPPING,
    NATURAL,
    NOT_NEGATIVE,
    NUMBER,
    POSITIVE,
    POSITIVE_INT,
    RATE,
    SHARE,
    TEXT,
    TEXTS,
    Rule,
    either,
    is_int,
    is_list,
    is_number,
    one_of,
    optional,
    several,
)
from ..errors import UserError
from ..utils.settings import type_name

MAPPINGS = Rule('a list of dicts', lambda value: is_list(value) and all(
    map(MAPPING.holds, value)))
ONE_OR_MORE = either(MAPPING, MAPPINGS)
SWITCH = Rule('a positive integer, or -1 for never', lambda value: is_int(
    value) and (value > 0 or value == -1))
LIMIT = Rule('a positive integer, or -1 for no limit', SWITCH.holds)
UP_TO_1 = Rule('a number above 0 and up to 1', lambda value: is_number(
    value) and 0 < value <= 1)
NORM = Rule('a positive number or inf', lambda value: value == inf or (
    POSITIVE.holds(value)))
CHANNELS = optional(either(POSITIVE_INT, several(POSITIVE_INT)))
SHARES = either(SHARE, several(SHARE))
SEED = Rule('an integer from 0 to 2**32 - 1', lambda value: is_int(
    value) and 0 <= value < 2**32)
# mmdet's recipes of V3Det divide, and write a whole number as float.
WHOLE = Rule('a positive integer', lambda value: POSITIVE_INT.holds(value)
             or isinstance(value, float) and value > 0 and value.is_integer())
SIDES = either(
    Rule('a positive number of pixels', POSITIVE_INT.holds),
    several(POSITIVE_INT, 2))
LEVEL = Rule('a level of logging as INFO', lambda value: is_int(value) or (
    isinstance(value, str)
    and isinstance(logging.getLevelName(value), int)))
WHOLE_SET = Rule("False or 'damage', since validation and test need every "
                 'image', lambda value: value is not True)
CLASSES = Rule("a list of names, as ('first', ) with a comma, or a file with "
               'a name in each line', lambda value: TEXTS.holds(value) or (
                   isinstance(value, str) and osp.isfile(value)))
PRIORITY = Rule('an integer from 0 to 100 or a name as NORMAL', lambda value: (
    is_int(value) and 0 <= value <= 100) or isinstance(value, Priority) or (
    isinstance(value, str) and value.upper() in Priority.__members__))

#: Rules by setting; `*` stands for anything, `?` for one name. A class before
#: the argument, `Class:argument`, means it wherever the class is used.
RULES = {
    'model': MAPPING,
    'train_cfg|val_cfg|test_cfg|env_cfg|default_hooks|auto_scale_lr'
    '|randomness|log_processor|visualizer|optim_wrapper': optional(MAPPING),
    '(train|val|test)_dataloader': optional(MAPPING),
    'param_scheduler|(val|test)_evaluator|vis_backends|custom_hooks':
    optional(ONE_OR_MORE),
    'default_hooks.?': optional(MAPPING),
    'work_dir|load_from|experiment_name|default_scope': optional(TEXT),
    'resume': BOOL,
    'log_level': LEVEL,
    'launcher': one_of('none', 'pytorch', 'slurm', 'mpi'),
    # loaders of data
    '*_dataloader.batch_size': POSITIVE_INT,
    '*_dataloader.num_workers': NATURAL,
    '*_dataloader.prefetch_factor': optional(POSITIVE_INT),
    '*_dataloader.timeout': NOT_NEGATIVE,
    '*_dataloader.(drop_last|persistent_workers|pin_memory)': BOOL,
    '*_dataloader.num_batch_per_epoch': optional(POSITIVE_INT),
    '*_dataloader.(dataset|sampler)': MAPPING,
    '*_dataloader.sampler.shuffle': BOOL,
    '*.pipeline': MAPPINGS,
    '(val|test)_dataloader.*.ignore_empty': WHOLE_SET,
    '*.dataset.(data_root|ann_file)': optional(TEXT),
    '*.dataset.(test_mode|serialize_data|lazy_init|with_label)': BOOL,
    '*.dataset.indices': optional(either(INT, several(INT))),
    '*.data_prefix': optional(either(TEXT, MAPPING)),
    '*.data_prefix.?': optional(TEXT),
    '*_evaluator*.ann_file': optional(TEXT),
    '*.(metainfo|filter_cfg|backend_args)': optional(MAPPING),
    '*.(metainfo|dataset).classes': optional(CLASSES),
    '*.(meta_keys|algorithm_keys)': TEXTS,
    '*.filter_cfg.filter_empty_gt': BOOL,
    '*.filter_cfg.min_size': NOT_NEGATIVE,
    # loops
    'train_cfg.(max_epochs|max_iters)': POSITIVE_INT,
    'train_cfg.val_interval': WHOLE,
    'train_cfg.val_begin': NATURAL,
    '(train|val|test)_cfg.(by_epoch|fp16)': BOOL,
    # optimization
    'optim_wrapper.optimizer': MAPPING,
    '*.optimizer.lr': NOT_NEGATIVE,
    '*.optimizer.weight_decay': NOT_NEGATIVE,
    '*.optimizer.momentum': RATE,
    '*.optimizer.betas': several(RATE),
    '*.optimizer.(nesterov|amsgrad|maximize)': BOOL,
    'optim_wrapper.accumulative_counts': POSITIVE_INT,
    'optim_wrapper.(clip_grad|paramwise_cfg)': optional(MAPPING),
    'optim_wrapper.clip_grad.(max_norm|clip_value)': POSITIVE,
    'optim_wrapper.clip_grad.norm_type': NORM,
    'optim_wrapper.loss_scale': either(one_of('dynamic'), POSITIVE, MAPPING),
    'optim_wrapper.dtype': one_of(
        'float16', 'bfloat16', 'float32', 'float64', None),
    'optim_wrapper.paramwise_cfg.*_mult': NOT_NEGATIVE,
    'optim_wrapper.paramwise_cfg.layer_decay_rate': UP_TO_1,
    'optim_wrapper.paramwise_cfg.custom_keys': MAPPING,
    # schedules
    'param_scheduler*.begin': NATURAL,
    'param_scheduler*.(end|step_size)': POSITIVE_INT,
    'param_scheduler*.T_max': optional(POSITIVE_INT),
    'param_scheduler*.start_factor': UP_TO_1,
    'param_scheduler*.(end_factor|eta_min_ratio)': optional(SHARE),
    'param_scheduler*.eta_min': optional(NOT_NEGATIVE),
    'param_scheduler*.(gamma|power|factor)': POSITIVE,
    'param_scheduler*.milestones': several(NATURAL),
    'param_scheduler*.(by_epoch|convert_to_iter_based)': BOOL,
    # hooks and logs
    '*CheckpointHook:(interval|max_keep_ckpts)': SWITCH,
    '*CheckpointHook:(by_epoch|save_last|save_optimizer)': BOOL,
    '*CheckpointHook:save_best': optional(either(TEXT, several(TEXT))),
    '(*LoggerHook|*VisualizationHook):interval': POSITIVE_INT,
    '*_hooks.*.priority': PRIORITY,
    'log_processor.window_size': POSITIVE_INT,
    'log_processor.by_epoch': BOOL,
    # environment
    'env_cfg.cudnn_benchmark': BOOL,
    'env_cfg.(mp_cfg|dist_cfg)': MAPPING,
    'env_cfg.mp_cfg.mp_start_method': one_of('fork', 'spawn', 'forkserver'),
    'env_cfg.mp_cfg.opencv_num_threads': NATURAL,
    'env_cfg.resource_limit': POSITIVE_INT,
    'env_cfg.dist_cfg.timeout': POSITIVE,
    'randomness.seed': optional(SEED),
    'randomness.(deterministic|diff_rank_seed)': BOOL,
    'auto_scale_lr.base_batch_size': POSITIVE_INT,
    'auto_scale_lr.enable': BOOL,
    # models of mmdet and mmpretrain
    '*.data_preprocessor.mean': optional(several(NUMBER)),
    '*.data_preprocessor.std': optional(several(POSITIVE)),
    '*data_preprocessor.(to_rgb|bgr_to_rgb|rgb_to_bgr|pad_mask)': BOOL,
    '*data_preprocessor.pad_size_divisor': POSITIVE_INT,
    '*data_preprocessor.pad_value': either(NUMBER, several(NUMBER)),
    'model.*.num_classes': optional(POSITIVE_INT),
    'model.*.(in|out|hid|feat|base|stem)_channels': CHANNELS,
    'model.*.mid_channels': either(NATURAL, CHANNELS),  # SparK: 0 for none
    'model.*.(num_outs|roi_feat_size)': POSITIVE_INT,
    'model.*.stacked_convs': NATURAL,
    'model.*.norm_eval': BOOL,
    'model.*.frozen_stages': INT,
    'model.*.loss_weight': NOT_NEGATIVE,
    'model.*.label_smooth_val': RATE,
    'FocalLoss:(gamma|alpha)': NOT_NEGATIVE,
    '(Mixup|CutMix):alpha': POSITIVE,
    'model.*.temperature': POSITIVE,
    'MoCo:(queue_len|feat_dim)': POSITIVE_INT,
    'MoCo:momentum': SHARE,
    '*AnchorGenerator:(strides|ratios|scales)': optional(several(
        either(POSITIVE, several(POSITIVE)))),
    '*AnchorGenerator:octave_base_scale': optional(POSITIVE),
    '*AnchorGenerator:scales_per_octave': optional(POSITIVE_INT),
    'model.*.(drop_rate|drop_path_rate|dropout|dropout_rate)': optional(
        either(RATE, several(RATE))),
    'model.test_cfg*.score_thr': optional(SHARE),
    'model.*.(pos_iou_thr|min_pos_iou)': SHARE,
    'model.*.neg_iou_thr': SHARES,
    'model.*.iou_threshold': SHARE,
    'model.test_cfg*.(max_per_img|nms_pre)': LIMIT,
    'model.test_cfg*.min_bbox_size': NOT_NEGATIVE,
    # transforms of images
    '(RandomResizedCrop|CenterCrop|ResizeEdge):(scale|crop_size)': SIDES,
    '*pipeline.*.(prob|erase_prob)': optional(SHARES),
    'RandAugment:(num_policies|total_level)': POSITIVE_INT,
    'RandAugment:magnitude_level': NOT_NEGATIVE,
    'RandomErasing:(min|max)_area_ratio': SHARE,
    'Normalize:mean': several(NUMBER),
    'Normalize:std': several(POSITIVE),
    '*Resize:keep_ratio': BOOL,
    'Accuracy:topk': either(POSITIVE_INT, several(POSITIVE_INT)),
}


def _pattern(setting: str) -> re.Pattern:
    for sign, regex in (('.', r'\.'), ('*', '.*'), ('?', '[^.]+')):
        setting = setting.replace(sign, regex)
    return re.compile(setting)


_PATTERNS = {_pattern(setting): rule for setting, rule in RULES.items()}
_SECTIONS = re.compile(
    r'model|data_preprocessor|.*_(dataloader|cfg|evaluator|hooks)|'
    'optim_wrapper|param_scheduler|visualizer|vis_backends|log_processor|'
    'log_level|launcher|randomness|auto_scale_lr|work_dir|load_from|resume|'
    'experiment_name|default_scope')


def find_wrong(cfg: Config) -> list[str]:
    """Settings that break a rule.

    Returns:
        list[str]: As ``'train_cfg.max_epochs=0 must be a positive integer'``.
    """
    wrong = []
    for section in cfg:
        if _SECTIONS.fullmatch(str(section)):
            for names, value in _settings(str(section), cfg[section]):
                wrong += _broken(names, value)
    return wrong


def _broken(names: tuple[str, ...], value) -> Iterator[str]:
    for pattern, rule in _PATTERNS.items():
        if any(map(pattern.fullmatch, names)):
            try:
                rule.check(names[0], value)
            except UserError as error:
                yield str(error)
                return


def _settings(path: str, value,
              kind: str = '') -> Iterator[tuple[tuple[str, ...], object]]:
    """Each setting with its names: the path, the class and argument."""
    last = path.split('.')[-1]
    yield (path, f'{kind}:{last}') if kind else (path, ), value
    if isinstance(value, Mapping):
        kind = type_name(value)
        for name, part in value.items():
            yield from _settings(f'{path}.{name}', part, kind)
    elif isinstance(value, list | tuple):
        for i, part in enumerate(value):
            yield from _settings(f'{path}.{i}', part)

