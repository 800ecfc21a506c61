# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Our configs in ``mmpretrain.list_models`` and ``mmpretrain.get_model``.

Only pre-training and classification: detectors belong to mmdet. Entries are
built from names and paths, since parsing the metafiles takes a second.
"""
from pathlib import Path

from mmpretrain.apis.model import ModelHub
from modelindex.models.Model import Model
from modelindex.models.Result import Result

PACKAGE = Path(__file__).parents[1]


def register_models() -> None:
    """Add our configs to mmpretrain's hub."""
    for file in _configs():
        if 'coco' in file.parts:
            continue
        results = None
        if 'benchmarks' in file.parts or 'mobile_former' in file.parts:
            results = [Result('Image Classification', 'ImageNet-1k', None)]
        # The public register_model_index parses all metafiles.
        ModelHub._models_dict.setdefault(file.stem, Model(
            Name=file.stem, Config=str(file), Results=results))


def find_config(name: str) -> str | None:
    """Return the path of one of our configs, None if there is none.

    Args:
        name (str): E.g. ``'qbheat_mf-285m_8xb128-amp-coslr-100e_in1k'``.
    """
    for file in _configs():
        if file.stem == name:
            return str(file)
    return None


def _configs() -> list[Path]:
    """List our configs, from a wheel or the source tree."""
    for root in (PACKAGE / '.mim/configs', PACKAGE.parent / 'configs'):
        if root.is_dir():
            return sorted(file for file in root.rglob('*.py')
                          if '_base_' not in file.parts)
    return []
