# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What the list of models says of each is what the paper prints of it."""
import pytest
import yaml

from .recipe import ALL, resolved
from .shipped import ROOT

ENCODERS = ('285m', '1.0g', '3.7g')

TOP1, AP = 'Top 1 Accuracy (paper)', 'box AP (paper)'
TUNED_AP = 'box AP after IN-1k fine-tuning of the encoder (paper)'

# Figure "Decoder probing on ImageNet-1K" (the text on it), Table "QB-Heat
# ablation experiments"; Tables "Fine-tuning results", "... with deeper
# decoders" and, from scratch, the row "supervised". None: not printed.
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
# Tables "COCO object detection results", frozen, fine-tuned and RetinaNet:
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
# Collection to source, and to what its runs are trained with
COLLECTIONS = {
    'QB-Heat': ('2211.13228', {'AdamW', 'AMP'}),
    'QB-Heat Classification': ('2211.13228', {'AdamW', 'SGD'}),
    'QB-Heat Detection': ('2211.13228', {'AdamW', 'SGD'}),
    'MoCo-v2 on Mobile-Former': ('2003.04297', {'SGD'}),
    'Mobile-Former': ('2108.05895', {'AdamW'}),
}


def printed():
    """Name of each model to the figures that a paper prints of it."""
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
def files():
    return [yaml.safe_load(file.read_text())
            for file in ROOT.rglob('metafile.yml')]


@pytest.fixture(scope='module')
def models(files):
    return {model['Name']: model for file in files
            for model in file['Models']}


def test_figures_are_those_that_the_papers_print(models):
    listed = {}
    for name, model in models.items():
        for result in model['Results'] or []:
            detects = name.endswith('_coco')
            assert (result['Task'], result['Dataset']) == (
                ('Object Detection', 'COCO') if detects
                else ('Image Classification', 'ImageNet-1k')), name
            assert name not in listed
            listed[name] = result['Metrics']
    assert listed == dict(printed())


def test_collections_name_their_source(files):
    found = {c['Name']: c for file in files for c in file['Collections']}
    assert set(found) >= set(COLLECTIONS)
    for name, (number, techniques) in COLLECTIONS.items():
        collection = found[name]
        assert collection['Paper']['URL'] == f'https://arxiv.org/abs/{number}'
        metadata = collection['Metadata']
        assert set(metadata['Training Techniques']) == techniques
        assert metadata['Training Resources'] == '8 GPUs'
        assert 'Mobile-Former' in metadata['Architecture']


def test_models_are_in_the_collection_of_their_task(models):
    for config in ALL:
        if config.startswith('demo/'):
            continue
        model = models[config.split('/')[-1].removesuffix('.py')]
        kind = resolved(config)['model.type']
        collection = model['In Collection']
        assert (collection == 'MoCo-v2 on Mobile-Former') == (kind == 'MoCo')
        assert (collection == 'Mobile-Former') == config.startswith(
            'mobile_former/')
        assert (collection == 'QB-Heat') == (kind == 'QBHeat'), config
        assert (collection == 'QB-Heat Detection') == (
            config.startswith('qbheat/coco/')), config
