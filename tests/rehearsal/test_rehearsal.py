# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Every training pipeline on data with the true shape of ImageNet and COCO.

`make rehearsal` also trains.
"""
import importlib.util

import pytest

from . import recipes, stages

#: A config of each run.
RUNS = {recipes.short(name): name for name in recipes.names()}


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """The drawn data sets."""
    root = tmp_path_factory.mktemp('rehearsal')
    recipes.draw_all(root)
    return root


@pytest.mark.parametrize('run', RUNS)
def test_pipeline_loads_data_as_it_is(run, folder, monkeypatch):
    recipe = recipes.read(RUNS[run])
    if recipe.kind == 'PanopticFPN' and not importlib.util.find_spec(
            'panopticapi'):
        pytest.skip('needs panopticapi')
    monkeypatch.chdir(folder)
    stages.build(recipe, samples=50)
