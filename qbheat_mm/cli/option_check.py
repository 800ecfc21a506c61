# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Find settings that mmengine would silently ignore or misread."""
import difflib
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from mmengine.config import Config
from mmengine.registry import Registry
from mmengine.runner import Runner

from ..errors import UserError
from ..utils.settings import toolbox

#: Settings besides the arguments of the runner.
OTHER_SECTIONS = {
    'activation_checkpointing', 'compile', 'efficient_conv_bn_eval',
    'find_unused_parameters', 'model_wrapper_cfg', 'runner_type', 'sync_bn',
    'work_dir', 'count_classes', 'tta_model', 'tta_pipeline'}
_DECAY = {'bias_lr_mult', 'bias_decay_mult', 'norm_decay_mult',
          'flat_decay_mult', 'dwconv_decay_mult', 'dcn_offset_lr_mult',
          'bypass_duplicate', 'custom_keys', 'num_layers', 'decay_rate',
          'decay_type', 'layer_decay_rate'}
#: Dicts in which mmengine and mmdet ignore unknown names.
SILENT = {
    r'env_cfg': {'cudnn_benchmark', 'mp_cfg', 'dist_cfg', 'resource_limit'},
    r'auto_scale_lr': {'enable', 'base_batch_size'},
    r'optim_wrapper\.paramwise_cfg': _DECAY,
    r'.*_dataloader\..*filter_cfg': {'filter_empty_gt', 'min_size',
                                    'bbox_min_size'},
}
#: Valid numbers where others would spoil a run: (setting, condition, words).
RANGES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    (r'.*\.(max_epochs|max_iters|batch_size|accumulative_counts|val_interval|'
     r'base_batch_size|num_classes|num_outs|num_queries|in_channels|'
     r'out_channels|max_norm|clip_value|std)', lambda x: x > 0, 'above 0'),
    (r'default_hooks\.(checkpoint|logger)\.(interval|max_keep_ckpts)|'
     r'.*\.(max_per_img|nms_pre)', lambda x: x > 0 or x == -1,
     'above 0, or -1'),
    (r'optim_wrapper\.(.*\.lr|.*weight_decay|.*_mult)|.*\.loss_weight',
     lambda x: 0 <= x < float('inf'), '0 or more'),
    (r'.*\.(layer_decay_rate|score_thr|iou_threshold|(min_)?pos_iou_thr|'
     r'neg_iou_thr|prob|momentum)', lambda x: 0 <= x <= 1, 'from 0 to 1'))
_REFUSED = dict(
    number=('text', 'switch', 'dict'), switch=('text', 'number', 'dict'),
    dict=('text', 'number', 'switch'), list=('dict', ))
#: Settings of a class that are not among its arguments.
_BESIDE = {'type', '_scope_', 'priority', 'optimizer', 'paramwise_cfg',
           'constructor', 'convert_to_iter_based', 'epoch_length',
           'requires_grad'}


def check_names(cfg: Config, options: Mapping[str, Any]) -> None:
    """Check the names and types of options before they are merged.

    An option may replace a setting or add an argument of the class that is
    built from the dict. If a dict has no class, a new name passes unless it
    resembles an existing one.

    Raises:
        UserError: For an unknown name or a value of another type.
    """
    sections = {*OTHER_SECTIONS, *inspect.signature(
        Runner.__init__).parameters} - {'self', 'cfg'}
    for option, value in options.items():
        first, *rest = option.split('.')
        if first not in sections:
            known = sections & {*cfg} or sections
            raise UserError(f'--cfg-options {option}: no setting {first!r} '
                            'is read once the config is loaded, write it in '
                            f'the file{_did_you_mean(first, known)}')
        # mmengine reads them as text, which is true.
        if value in ('yes', 'no', 'on', 'off'):
            raise UserError(f'--cfg-options {option}={value}: write True or '
                            'False')
        node = cfg.get(first)
        for i, name in enumerate(rest):
            if isinstance(node, list | tuple) and name.isdigit() and (
                    int(name) < len(node)):
                node = node[int(name)]
            elif isinstance(node, Mapping) and name in node:
                node = node[name]
            else:
                if isinstance(node, Mapping):
                    _check_new(cfg, node, (first, *rest[:i]), name)
                break
        else:
            _check_kind(option, node, value)


def check_values(cfg: Config) -> None:
    """Check the settings of a config.

    Raises:
        UserError: For the first that would be misread silently.
    """
    for path, value in _settings('', cfg.to_dict()):
        for pattern, names in SILENT.items():
            if isinstance(value, dict) and re.fullmatch(pattern, path):
                for name in {*value} - names:
                    raise UserError(f'{path}.{name} is not a setting'
                                    f'{_did_you_mean(name, names)}')
        if path == 'auto_scale_lr.enable' and _kind(value) != 'switch':
            raise UserError(f'{path}={value!r} must be True or False')
        numbers = value if isinstance(value, list | tuple) else [value]
        for pattern, holds, words in RANGES:
            if re.fullmatch(pattern, path) and not all(
                    holds(number) for number in numbers
                    if _kind(number) == 'number'):
                raise UserError(f'{path}={value!r} must be {words}')
        if value == [] and re.fullmatch(r'\w+_dataloader\.dataset\.pipeline',
                                        path):
            raise UserError(f'{path} is empty: nothing loads the images')


def _check_new(cfg: Config, node: Mapping, path: Sequence[str],
               name: str) -> None:
    """Raise UserError for a name that the class of a dict doesn't accept."""
    accepted = _accepted(cfg, node) if 'type' in node else {
        *difflib.get_close_matches(name, map(str, node), 1, 0.8)}
    if accepted and name not in accepted:
        raise UserError(f"--cfg-options: {'.'.join(path)} has no {name!r}"
                        f'{_did_you_mean(name, {*accepted, *node})}')


def _accepted(cfg: Config, settings: Mapping) -> set[str]:
    """Arguments of the class in ``settings``; empty if it accepts any.

    If registries share a name, the arguments of all its classes.
    """
    kind, found = settings['type'], []
    for package in (settings.get('_scope_') or toolbox(cfg), 'mmengine'):
        try:
            registries = vars(importlib.import_module(f'{package}.registry'))
        except ImportError:
            continue
        found += [kind] if callable(kind) else [
            registry.get(kind) for registry in registries.values()
            if isinstance(registry, Registry)]
    names = set()
    for target in filter(callable, found):
        try:
            parameters = inspect.signature(target).parameters.values()
        except (TypeError, ValueError):
            return set()
        if any(one.kind is one.VAR_KEYWORD for one in parameters):
            return set()
        names |= {one.name for one in parameters}
    return names and names | _BESIDE


def _check_kind(option: str, old: Any, new: Any) -> None:
    """Refuse e.g. text for a number, or a number for a switch."""
    if option.endswith('.ignore_empty'):  # also takes 'damage'
        return
    kind = _kind(old)
    if _kind(new) in _REFUSED.get(kind, ()):
        raise UserError(f'--cfg-options {option}={new}: the config has '
                        f'{old!r}, a {kind}')


def _kind(value: Any) -> str:
    for kind, types in (('switch', bool), ('number', int | float),
                        ('text', str), ('dict', Mapping),
                        ('list', list | tuple)):
        if isinstance(value, types):
            return kind
    return 'other'


def _settings(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Path and value of every setting, including dicts and lists."""
    if path:
        yield path, value
    parts = value.items() if isinstance(value, Mapping) else (
        enumerate(value) if isinstance(value, list | tuple) else ())
    for name, part in parts:
        yield from _settings(f'{path}.{name}'.lstrip('.'), part)


def _did_you_mean(name: Any, known: Iterable) -> str:
    near = difflib.get_close_matches(str(name), map(str, known), n=1)
    return f'; did you mean {near[0]!r}?' if near else ''
