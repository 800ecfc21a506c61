# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The list of models that mim reads."""
from pathlib import Path

import mmpretrain
import pytest
import yaml

import qbheat_mm  # noqa: F401  (its models are listed then)

from .shipped import NAMES, load

ROOT = Path(__file__).parents[2]


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


def test_every_config_is_listed_once(models):
    listed = [model['Config'] for model in models]
    assert sorted(listed) == [f'configs/{name}' for name in NAMES]
    assert [model['Name'] for model in models] == [
        Path(config).stem for config in listed]


def test_epochs_and_batches_are_those_of_the_configs(models):
    for model in models:
        cfg = load(model['Config'].removeprefix('configs/'))
        assert model['Metadata']['Epochs'] == cfg.train_cfg.max_epochs
        assert model['Metadata']['Batch Size'] == (
            cfg.auto_scale_lr.base_batch_size), model['Name']


def test_accuracies_are_marked_as_the_papers(models):
    seen = 0
    for model in models:
        assert 'Weights' not in model
        for result in model['Results'] or []:
            for metric in result['Metrics']:
                assert metric.endswith('(paper)')
                seen += 1
    assert seen > 40


def test_mim_reads_it(models):
    load_index = pytest.importorskip('modelindex.load_model_index').load
    search = pytest.importorskip('mim.commands.search')
    table = search.convert2df(load_index(str(ROOT / 'model-index.yml')))
    assert sorted(table.index) == sorted(model['Name'] for model in models)
    name = 'mf-dec-522_mf-3.7g_frozen_8xb2-500e_coco'
    assert table.loc[name]['coco/box_ap_(paper)'] == 43.5


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
