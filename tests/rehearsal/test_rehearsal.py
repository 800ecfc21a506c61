# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Every pipeline on data with the true shape, and a tenth of the trainings.

The commit decides which tenth of those with small encoders; `make rehearsal`
runs all.
"""
from pathlib import Path

import pytest
from mmengine.utils import get_git_hash

from . import recipes, stages

#: A config of each run.
RUNS = {recipes.short(name): name for name in recipes.names()}
SMALL = [run for run in RUNS if not recipes.is_large(run)]
TENTH = int(get_git_hash(digits=8, fallback='') or '0', 16) % 10


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


@pytest.mark.parametrize('run', SMALL[TENTH::10])
def test_recipe_trains_tests_and_resumes(run):
    recipe, wanted = read(run), []
    while not Path('runs', recipe.run).exists():
        wanted.append(recipe)
        if not recipe.origin:
            break
        recipe = read(recipe.origin)
    for each in reversed(wanted):
        stages.train(each)
