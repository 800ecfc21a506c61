# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What all configs share: loaders, hooks and seeds."""
import pytest
from mmdet.apis import DetInferencer
from mmengine.registry import TRANSFORMS
from mmpretrain.datasets import remove_transform

from qbheat_mm.datasets import LoadNamedImageFromFile, LoadRandomResizedCrop

from .shipped import DEMOS, NAMES, load


@pytest.mark.parametrize('name', NAMES)
def test_runs_are_reproducible_and_kept_small(name):
    cfg = load(name)
    assert 'qbheat_mm' in cfg.custom_imports.imports
    assert cfg.custom_imports.allow_failed_imports is False
    hooks = cfg.default_hooks
    # 2,400 epochs must not fill a disk, and at most a tenth may be lost.
    assert hooks.checkpoint.interval == 0.1
    assert hooks.checkpoint.max_keep_ckpts <= 3
    assert {'SafeCheckpointHook', 'StrictLoadHook', 'RandomStateHook',
            'ResumeHook', 'StopOnNonFiniteLossHook', 'RunAdviceHook'} <= {
                hook.type for hook in hooks.values()}
    assert cfg.randomness.seed is not None


@pytest.mark.parametrize('name', [*NAMES, *DEMOS])
def test_images_are_loaded_by_our_transforms(name):
    cfg = load(name)
    for part in ('train', 'val', 'test'):
        if not cfg.get(f'{part}_dataloader'):
            continue
        pipeline = cfg[f'{part}_dataloader'].dataset.pipeline
        loaders = [step for step in pipeline if 'Load' in step.type
                   and 'Annotations' not in step.type]
        assert loaders == [pipeline[0]]
        # Only ImageNet is known to contain damaged files.
        assert loaders[0].get('ignore_empty', False) == (
            'damage' if '_in1k' in name else False)
        loader = TRANSFORMS.build(loaders[0])
        if loaders[0].type == 'LoadRandomResizedCrop':
            assert part == 'train'
            assert isinstance(loader, LoadRandomResizedCrop)
            continue
        assert type(loader) is LoadNamedImageFromFile
        # As mmpretrain's and mmdet's inferencers look for it.
        assert remove_transform(pipeline, 'LoadImageFromFile') == pipeline[1:]
        assert DetInferencer._get_transform_idx(
            None, pipeline, ('LoadImageFromFile', )) == 0
