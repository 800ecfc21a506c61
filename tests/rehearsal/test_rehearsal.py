# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Every pipeline on data with the true shape, and a few of the trainings.

`make rehearsal` runs all.
"""
from pathlib import Path

import pytest

from . import recipes, stages

#: A config of each run.
RUNS = {recipes.short(name): name for name in recipes.names()}
#: Their encoders and checkpoints come from further runs.
CHOSEN = ('mf-26m_8xb128-coslr_in1k',
          'mocov2_mf-285m_1xb256-coslr_own-images',
          'qbheat_mf-285m_1xb64-amp-coslr_own-images',
          'mf-285m_1xb256-tran1-coslr_own-folders',
          'mf-285m_8xb64-ft-tran1-coslr_in1k',
          'retinanet_mf-285m_own-data',
          'mf-dec-211_mf-285m_ft_8xb2_coco')


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """The drawn data sets."""
    root = tmp_path_factory.mktemp('rehearsal')
    recipes.draw_all(root)
    return root


@pytest.fixture(autouse=True)
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)


def read(run):
    recipe = recipes.read(RUNS[run])
    if recipe.missing:
        pytest.skip(f'needs {recipe.missing}')
    return recipe


@pytest.mark.parametrize('run', RUNS)
def test_pipeline_loads_data_as_it_is(run):
    stages.build(read(run), samples=50)


def test_each_way_to_start_and_to_count_is_chosen():
    ways = set()
    for run in RUNS:
        ways.add(recipes.read(RUNS[run]).way)
    for run in CHOSEN:
        while run:
            recipe = recipes.read(RUNS[run])
            ways.discard(recipe.way)
            run = recipe.origin
    assert not ways


@pytest.mark.parametrize('run', CHOSEN)
def test_recipe_trains_tests_and_resumes(run):
    recipe, wanted = read(run), []
    while not Path('runs', recipe.run).exists():
        wanted.append(recipe)
        if not recipe.origin:
            break
        recipe = read(recipe.origin)
    for each in reversed(wanted):
        stages.train(each)
