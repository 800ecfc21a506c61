# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The model index for mim, its accuracies, and the page of tables."""
import re
from pathlib import Path

import mmpretrain
import pytest
import yaml

import qbheat_mm  # noqa: F401  (lists its models)

from ..helpers.shipped import NAMES, load
from ..helpers.tools import ROOT

ENCODERS = ('285m', '1.0g', '3.7g')
TOP1, AP = 'Top 1 Accuracy (paper)', 'box AP (paper)'
TUNED_AP = 'box AP after IN-1k fine-tuning of the encoder (paper)'

# Figure 8 (the text on it), Table 2; Tables 4, 15 and, from scratch, the row
# "supervised". None: not printed.
IMAGENET = {
    'mf-{}_8xb512-linear-coslr-90e_in1k': (None, None, 65.1),
    'mf-{}_8xb512-tran1-coslr-200e_in1k': (65.6, None, 78.6),
    'mf-{}_8xb64-ft-tran1-coslr-{}e_in1k': (75.8, 80.5, 82.5),
    'mf-{}_8xb64-ft-tran4-coslr-{}e_in1k': (78.4, 81.9, 83.5),
    'mf-{}_8xb128-tran1-coslr-450e_in1k': (75.7, 79.4, 80.8),
}
FINE_TUNED = dict(zip(ENCODERS, (200, 150, 100)))
# Mobile-Former (CVPR 2022)
V1 = {'26m': 64.0, '52m': 68.7, '96m': 72.8, '151m': 75.2, '214m': 76.7,
      '294m': 77.9, '508m': 79.3}
# Tables 5, 16 and 14, frozen, fine-tuned and RetinaNet:
# rows "QB-Heat" without and with IN1K-ft, for the three encoders
COCO = {
    'mf-dec-522_mf-{}_frozen_8xb2-500e_coco':
        ((39.7, 41.6), (42.6, 44.0), (43.5, 45.5)),
    'mf-dec-211_mf-{}_frozen_8xb2-500e_coco':
        ((33.0, 35.8), (35.7, 39.3), (36.7, 41.0)),
    'mf-dec-522_mf-{}_ft_8xb2-200e_coco':
        ((42.6, 44.4), (46.7, 47.1), (48.0, 49.0)),
    'mf-dec-211_mf-{}_ft_8xb2-200e_coco':
        ((37.2, 39.3), (42.4, 43.8), (44.3, 46.0)),
    'retinanet_mf-{}_fpn_frozen_8xb2-1x_coco':
        ((31.3, 33.8), (35.7, 37.7), (36.6, 38.7)),
}
#: Configs that no row of the paper needs.
BEYOND = re.compile(
    'own-|-50e|resnet|convnext|faster-rcnn|fcos|dino|mask-rcnn|panoptic')


def printed():
    """Name of each model, and the accuracies that a paper prints."""
    for name, values in IMAGENET.items():
        for e, value in zip(ENCODERS, values):
            if value:
                yield name.format(e, FINE_TUNED[e]), {TOP1: value}
    for variant, value in V1.items():
        yield f'mf-{variant}_8xb128-coslr-450e_in1k', {TOP1: value}
    for name, pairs in COCO.items():
        for e, (plain, tuned) in zip(ENCODERS, pairs):
            yield name.format(e), {AP: plain, TUNED_AP: tuned}


@pytest.fixture(scope='module')
def models():
    index = yaml.safe_load((ROOT / 'model-index.yml').read_text())
    models, collections = [], set()
    for file in index['Import']:
        content = yaml.safe_load((ROOT / file).read_text())
        models += content['Models']
        collections |= {c['Name'] for c in content['Collections']}
    assert all(model['In Collection'] in collections for model in models)
    return models


def test_every_config_is_listed_once_with_its_length_and_batch(models):
    assert sorted(model['Config'] for model in models) == [
        f'configs/{name}' for name in NAMES]
    for model in models:
        assert model['Name'] == Path(model['Config']).stem
        cfg = load(model['Config'].removeprefix('configs/'))
        lengths = model['Metadata'].get('Epochs'), (
            model['Metadata'].get('Steps'))
        assert lengths == (cfg.train_cfg.get('max_epochs'),
                           cfg.train_cfg.get('max_iters'))
        assert model['Metadata']['Batch Size'] == (
            cfg.auto_scale_lr.base_batch_size), model['Name']


def test_accuracies_are_those_that_the_papers_print(models):
    listed = {}
    for model in models:
        assert 'Weights' not in model
        for result in model['Results'] or []:
            assert (result['Task'], result['Dataset']) == (
                ('Object Detection', 'COCO')
                if model['Name'].endswith('_coco')
                else ('Image Classification', 'ImageNet-1k')), model['Name']
            assert model['Name'] not in listed
            listed[model['Name']] = result['Metrics']
    assert listed == dict(printed())


def test_mmpretrain_lists_and_builds_them(models):
    names = {model['Name'] for model in models if 'coco' not in (
        model['Config'])}
    assert names <= set(mmpretrain.list_models('*'))
    found = mmpretrain.list_models('*mf-*', task='Image Classification')
    assert 'mf-508m_8xb128-coslr-450e_in1k' in found
    pretraining = 'qbheat_mf-285m_8xb128-amp-coslr-100e_in1k'
    assert pretraining in mmpretrain.list_models('qbheat*')
    assert 'resnet50_8xb32_in1k' in mmpretrain.list_models('resnet50*')
    model = mmpretrain.get_model(pretraining)
    assert type(model).__name__ == 'QBHeat'
    assert Path(model._config.filename).stem == pretraining


def test_the_page_of_tables_names_every_config_of_the_paper_and_no_other():
    named, folder = set(), ROOT / 'configs'
    page = (ROOT / 'docs/paper_tables.md').read_text()
    for pattern in re.findall(
            r'`((?:qbheat|mobile_former|mocov2)/[^`]+\.py)`', page):
        for encoder in ('285m', '1.0g', '3.7g'):
            found = list(folder.glob(pattern.replace('{E}', encoder)))
            assert len(found) == 1, pattern
            named.add(found[0].relative_to(folder).as_posix())
    assert named == {name for name in NAMES if not BEYOND.search(name)}
