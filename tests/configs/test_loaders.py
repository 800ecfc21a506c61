# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Every configuration loads with our transforms, in training and in tests."""
import pytest
from mmdet.apis import DetInferencer
from mmengine.registry import TRANSFORMS
from mmpretrain.datasets import remove_transform

from qbheat_mm.datasets import LoadNamedImageFromFile, LoadRandomResizedCrop

from .shipped import DEMOS, NAMES, load


def pipelines(name):
    cfg = load(name)
    for part in ('train', 'val', 'test'):
        if loader := cfg.get(f'{part}_dataloader'):
            yield part, loader.dataset.pipeline


@pytest.mark.parametrize('name', [*NAMES, *DEMOS])
def test_the_loader_is_ours_and_found_by_its_name(name):
    for part, pipeline in pipelines(name):
        loaders = [step for step in pipeline if 'Load' in step.type
                   and 'Annotations' not in step.type]
        assert loaders == [pipeline[0]]
        if loaders[0].type == 'LoadRandomResizedCrop':
            assert part == 'train'
            assert isinstance(TRANSFORMS.build(loaders[0]),
                              LoadRandomResizedCrop)
            continue
        assert type(TRANSFORMS.build(loaders[0])) is LoadNamedImageFromFile
        # As mmpretrain's and mmdet's inferencers look for it.
        assert remove_transform(pipeline, 'LoadImageFromFile') == pipeline[1:]
        assert DetInferencer._get_transform_idx(
            None, pipeline, ('LoadImageFromFile', )) == 0


@pytest.mark.parametrize('name', [*NAMES, *DEMOS])
def test_only_imagenet_may_hold_damaged_files(name):
    for _, pipeline in pipelines(name):
        is_imagenet = '_in1k' in name
        assert pipeline[0].get('ignore_empty', False) == (
            'damage' if is_imagenet else False)
        assert 'color_type' not in pipeline[0]
