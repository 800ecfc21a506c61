# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Parse the config that a checkpoint stores, without running it."""
import ast
import json
from collections.abc import Mapping
from typing import Any


def parse_config(meta: Mapping) -> dict:
    """Read the literal settings of a run's config.

    Args:
        meta (Mapping): Metadata of a checkpoint or of an exported encoder.

    Returns:
        dict: The settings; empty if there are none.
    """
    try:
        if isinstance(meta.get('backbone'), str):
            return _config_of_export(meta)
        settings = {}
        for node in ast.parse(meta.get('cfg') or '').body:
            if isinstance(node, ast.Assign) and isinstance(
                    node.targets[0], ast.Name):
                settings[node.targets[0].id] = _literal(node.value)
        return settings
    except (SyntaxError, ValueError, TypeError, RecursionError):
        return {}


def _literal(node: ast.AST) -> Any:
    """A literal or ``dict(...)``; None for any other expression."""
    if isinstance(node, ast.Call) and getattr(node.func, 'id', '') == 'dict':
        settings = {}
        for keyword in node.keywords:
            settings[keyword.arg] = _literal(keyword.value)
        return settings
    if isinstance(node, ast.Dict):
        settings = {}
        for key, value in zip(node.keys, node.values):
            if key:  # not **settings
                settings[_literal(key)] = _literal(value)
        return settings
    if isinstance(node, ast.List):
        return [_literal(item) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_literal(item) for item in node.elts)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return None


def _config_of_export(meta: Mapping) -> dict:
    """The metadata of an exported encoder in the layout of a config."""

    def value(name: str) -> Any:
        return json.loads(meta.get(name, 'null'))

    model = dict(backbone=value('backbone'))
    if meta.get('channel_order') in ('RGB', 'BGR'):
        model['data_preprocessor'] = dict(
            mean=value('mean'), std=value('std'),
            to_rgb=meta['channel_order'] == 'RGB')
    size = value('training_size')
    pipeline = [dict(type='RandomResizedCrop', scale=size)] if size else []
    return dict(model=model, train_dataloader=dict(
        dataset=dict(pipeline=pipeline)))
