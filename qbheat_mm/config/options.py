# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Find settings that mmengine would silently ignore or misread."""
import contextlib
import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from mmengine import registry
from mmengine.config import Config
from mmengine.registry import Registry

from ..errors import UserError
from ..utils.settings import toolbox

#: Settings besides the arguments of the runner.
OTHER_SECTIONS = {
    'activation_checkpointing', 'compile', 'efficient_conv_bn_eval',
    'find_unused_parameters', 'model_wrapper_cfg', 'runner_type', 'sync_bn',
    'work_dir', 'count_classes', 'encoder', 'teacher', 'teacher_method',
    'distillation', 'tta_model', 'tta_pipeline'}
#: Dicts in which mmengine and mmdet ignore unknown names.
SILENT = dict(
    env_cfg={'cudnn_benchmark', 'mp_cfg', 'dist_cfg', 'resource_limit'},
    auto_scale_lr={'enable', 'base_batch_size'},
    paramwise_cfg={
        'bias_lr_mult', 'bias_decay_mult', 'norm_decay_mult',
        'flat_decay_mult', 'dwconv_decay_mult', 'dcn_offset_lr_mult',
        'bypass_duplicate', 'custom_keys', 'num_layers', 'decay_rate',
        'decay_type', 'layer_decay_rate'},
    filter_cfg={'filter_empty_gt', 'min_size', 'bbox_min_size'})
#: Allowed ranges, where torch and the toolboxes check none: words, condition,
#: and the last names of the settings.
RANGES: tuple[tuple[str, Callable[[float], bool], set[str]], ...] = (
    ('positive', lambda x: x > 0, {
        'max_epochs', 'max_iters', 'accumulative_counts', 'val_interval',
        'base_batch_size', 'num_classes', 'num_outs', 'num_queries',
        'max_norm', 'clip_value', 'std'}),
    ('positive, or -1', lambda x: x > 0 or x == -1, {
        'interval', 'max_keep_ckpts', 'max_per_img', 'nms_pre'}),
    ('at least 0 and finite', lambda x: 0 <= x < float('inf'), {
        'lr_mult', 'decay_mult', 'loss_weight',
        *(name for name in SILENT['paramwise_cfg'] if '_mult' in name)}),
    ('between 0 and 1', lambda x: 0 <= x <= 1, {
        'layer_decay_rate', 'score_thr', 'iou_threshold', 'pos_iou_thr',
        'min_pos_iou_thr', 'neg_iou_thr', 'prob'}))
_KINDS = dict(switch=bool, number=int | float, text=str, dict=Mapping)
#: Settings of classes that are not their arguments.
_OTHER_NAMES = {
    'type', '_scope_', 'priority', 'optimizer', 'paramwise_cfg', 'constructor',
    'convert_to_iter_based', 'epoch_length', 'requires_grad'}


def check_names(cfg: Config, options: Mapping[str, Any]) -> None:
    """Check names and types of options before they are merged.

    An option may replace a setting or add an argument of the class that is
    built from the dict. In a dict without a class, a new name passes unless
    it resembles an existing one.

    Raises:
        UserError: If a name is unknown or a value has the wrong type.
    """
    from mmengine.runner import Runner  # loads torch
    sections = {*OTHER_SECTIONS, *inspect.signature(
        Runner.__init__).parameters} - {'self', 'cfg'}
    for option, value in options.items():
        first, *rest = option.split('.')
        if first not in sections:
            known = sections & {*cfg} or sections
            raise UserError(f'--cfg-options {option}: unknown top-level '
                            f'setting {first!r}{_did_you_mean(first, known)}')
        # mmengine reads these as text, which is truthy.
        if value in ('yes', 'no', 'on', 'off'):
            raise UserError(f'--cfg-options {option}={value}: write True or '
                            'False')
        node, path = cfg.get(first), first
        for name in rest:
            parts = _parts(node)
            if name not in parts:
                _check_new(cfg, parts, path, name)
                break
            node, path = parts[name], f'{path}.{name}'
        else:
            _check_kind(option, node, value)


def check_values(cfg: Config) -> None:
    """Check a config for settings that would be misread silently.

    Raises:
        UserError: For the first such setting.
    """
    for path, value in _settings(cfg.to_dict()):
        name = path.rpartition('.')[2]
        if name in SILENT and isinstance(value, dict):
            for unknown in {*value} - SILENT[name]:
                raise UserError(f'{path}.{unknown} is not a setting'
                                f'{_did_you_mean(unknown, SILENT[name])}')
        if path == 'auto_scale_lr.enable' and not isinstance(value, bool):
            raise UserError(f'{path}={value!r} must be True or False')
        for words, holds, names in RANGES:
            if name in names and not all(map(holds, _numbers(value))):
                raise UserError(f'{path}={value!r} must be {words}')
        if path.endswith('_dataloader.dataset.pipeline') and value == []:
            raise UserError(f'{path} is empty: nothing loads the images')


def _numbers(value: Any) -> list[float]:
    """Return the numbers of a setting, or of its list."""
    values = value if isinstance(value, list | tuple) else [value]
    return [each for each in values if _kind(each) == 'number']


def _check_new(cfg: Config, node: Mapping, path: str, name: str) -> None:
    """Raise UserError for a name that the class of a dict doesn't accept."""
    if 'type' in node:
        accepted = _accepted(cfg, node)
    else:
        accepted = set(difflib.get_close_matches(name, map(str, node), 1, 0.8))
    if accepted and name not in accepted:
        raise UserError(f'--cfg-options: {path} has no {name!r}'
                        f'{_did_you_mean(name, {*accepted, *node})}')


def _accepted(cfg: Config, settings: Mapping) -> set[str]:
    """Return the arguments of a class; empty if it accepts any name.

    If registries share the class name, arguments of all these classes.
    """
    kind, scope = settings['type'], settings.get('_scope_') or toolbox(cfg)
    with contextlib.suppress(ImportError):
        importlib.import_module(f'{scope}.registry')
    accepted: set[str] = set()
    for builder in _builders(kind, scope):
        for parameter in inspect.signature(builder).parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                return set()
            accepted.add(parameter.name)
    if accepted:
        accepted |= _OTHER_NAMES
    return accepted


def _builders(kind: Any, scope: str | None) -> Iterator[Callable]:
    """Yield a class, or the classes of all registries by its name."""
    if callable(kind):
        yield kind
        return
    for root in vars(registry).values():
        if isinstance(root, Registry):
            builder = root.children.get(scope, root).get(kind)
            if callable(builder):
                yield builder


def _check_kind(option: str, old: Any, new: Any) -> None:
    """Refuse e.g. text for a number, or a number for a switch."""
    kind = _kind(old)
    if option.endswith('data_root') and _kind(new) == 'number':
        raise UserError(f'{option}={new} is a number: write ./NAME instead')
    if kind and kind != 'text' and _kind(new) not in (kind, '') and (
            not option.endswith('.ignore_empty')):  # also takes 'damage'
        raise UserError(f'--cfg-options {option}={new}: the config has '
                        f'{old!r}, a {kind}')


def _kind(value: Any) -> str:
    """Return the kind of a value, '' for None, lists and others."""
    for kind, types in _KINDS.items():
        if isinstance(value, types):
            return kind
    return ''


def _parts(value: Any) -> Mapping[str, Any]:
    """Return the settings in a dict by name, in a list by position."""
    if isinstance(value, list | tuple):
        return {str(i): part for i, part in enumerate(value)}
    return value if isinstance(value, Mapping) else {}


def _settings(value: Any, prefix: str = '') -> Iterator[tuple[str, Any]]:
    """Yield path and value of every setting, including dicts and lists."""
    for name, part in _parts(value).items():
        yield f'{prefix}{name}', part
        yield from _settings(part, f'{prefix}{name}.')


def _did_you_mean(name: Any, known: Iterable) -> str:
    near = difflib.get_close_matches(str(name), map(str, known), n=1)
    return f'; did you mean {near[0]!r}?' if near else ''
