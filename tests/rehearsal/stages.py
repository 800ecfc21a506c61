# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What is rehearsed: each function returns normally, or raises.

They run in a folder with ``data``, see :func:`recipes.draw_all`, and leave
their results in ``runs``.
"""
import json
import math
import os
import runpy
import shutil
import subprocess
import sys
import zlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import mmdet.utils
import mmengine.config.config
import mmpretrain.utils
import numpy as np
import torch
from mmengine.registry import DATASETS, MODELS, DefaultScope

from qbheat_mm.config.reading import read_config
from qbheat_mm.engine.random_state import mix, seed_generators
from qbheat_mm.trained.safe_load import safe_load

from .recipes import LAST, ROOT, STEPS, Recipe

# Import all parts once, before processes fork.
mmdet.utils.register_all_modules(init_default_scope=False)
mmpretrain.utils.register_all_modules(init_default_scope=False)
# mmengine formats a config three times, half of the time of a short run.
mmengine.config.config.FormatCode = lambda text, **kwargs: (text, True)

#: Number of the first images, which have each size and kind of file.
UNUSUAL = 20
#: Seconds after which a command hangs.
PATIENCE = 900
#: How much AP may differ from training's, whose cached features have other
#: last bits: an untrained Mask R-CNN ranks objects by them.
NOISE = 0.005
#: Starts a command as on two machines; its name is the port.
MACHINES = """
set -e
export NNODES=2 MASTER_ADDR=127.0.0.1 PORT=$0
NODE_RANK=0 "$@" &
trap "kill $! 2>/dev/null" EXIT
NODE_RANK=1 "$@"
wait $!
trap - EXIT
"""


class Failure(Exception):
    """A stage ended, with a wrong result."""


def run_tool(name: str, *args) -> None:
    """Do what ``python tools/NAME ARGS`` does, in a process of its own.

    Like a command, it ends without waiting for the workers of its loaders:
    5 seconds for each, where the process goes on.
    """
    with ProcessPoolExecutor(1, mp_context=get_context('fork')) as pool:
        pool.submit(_run_script, str(ROOT / 'tools' / name), args).result()


def _run_script(file: str, args: Sequence) -> None:
    torch.set_num_threads(1)  # several would hang after a fork
    sys.argv = [file, *map(str, args)]
    runpy.run_path(file, run_name='__main__')


def build(recipe: Recipe, samples: int) -> None:
    """Build the model, and load samples by the training pipeline.

    Every second sample is one of the unusual first images.

    Raises:
        Failure: If any sample fails.
    """
    cfg = read_config(recipe.config)
    with DefaultScope.overwrite_default_scope(cfg.default_scope):
        if not cfg.get('count_classes'):  # the runner sets the number
            MODELS.build(cfg.model)
        dataset = DATASETS.build(cfg.train_dataloader.dataset)
        own, errors = zlib.crc32(recipe.name.encode()), []
        for number in range(samples):
            seed_generators(mix(own, number))
            index = np.random.randint(len(dataset))
            if number % 2:
                index %= UNUSUAL
            try:
                dataset[index]
            except Exception as error:  # all are counted
                path = dataset.get_data_info(index)['img_path']
                errors.append(f'{path}: {type(error).__name__}: {error}')
    if errors:
        raise Failure(f'{len(errors)} of {samples} samples: {errors[0]}')


def train(recipe: Recipe) -> None:
    """Train, test the checkpoint, and resume the run before its last step.

    Raises:
        Failure: If the test measures something else than the training, or
            the resumed run ends with other weights.
    """
    run, resumed = Path('runs', recipe.run), Path('runs', f'{recipe.run}-2')
    options = ['--cfg-options', *recipe.lengths(), *recipe.weights]
    run_tool('train.py', recipe.config, '--work-dir', run, *options)
    if recipe.metric:
        _test(recipe, run)
    resumed.mkdir()
    before = f'iter_{STEPS - 1}.pth'
    (run / before).rename(resumed / before)
    run_tool('train.py', recipe.config, '--work-dir', resumed, '--resume',
             '--no-validate', *options)
    _require_equal(run, resumed)
    shutil.rmtree(resumed)
    # Only runs that begin with an encoder are continued by another.
    _drop_weights(run, keep=LAST if recipe.start == 'encoder' else '')


def _test(recipe: Recipe, run: Path) -> None:
    """Test a checkpoint; raise Failure if training measured another value."""
    out = run / 'metrics.json'
    run_tool('test.py', recipe.config, run / LAST, '--work-dir', run / 'test',
             '--out-metrics', out, '--cfg-options', *recipe.lengths())
    measured = json.loads(out.read_text())[recipe.metric]
    logged = []
    for file in run.glob('*/vis_data/scalars.json'):
        for line in file.read_text().splitlines():
            value = json.loads(line).get(recipe.metric)
            if value is not None:
                logged.append(value)
    if not math.isclose(measured, logged[-1], abs_tol=NOISE):
        raise Failure(f'{recipe.metric} is {measured}, in training {logged}')


def _require_equal(run: Path, other: Path) -> None:
    """Raise Failure unless two runs end with the same weights."""
    state = safe_load(str(run / LAST))['state_dict']
    for name, tensor in safe_load(str(other / LAST))['state_dict'].items():
        if not torch.equal(tensor, state[name]):
            raise Failure(f'{name} in {other} is not that in {run}')


def _drop_weights(folder: Path, keep: str = '') -> None:
    """Delete checkpoints, which fill the disk."""
    for file in folder.glob('*.pth'):
        if file.name != keep:
            file.unlink()


def launch(recipe: Recipe, by_machines: bool) -> None:
    """Train by two processes, and also by two machines of one process each.

    Raises:
        Failure: If they end with other weights.
    """
    processes = Path('runs', f'{recipe.run}-processes')
    script = str(ROOT / 'tools/dist_train.sh')
    options = ['--cfg-options', *recipe.lengths(processes=2), *recipe.weights]
    _run(script, recipe.config, '2', '--work-dir', processes, *options)
    if by_machines:
        port = 29000 + os.getpid() % 1000
        machines = Path('runs', f'{recipe.run}-machines')
        _run('bash', '-c', MACHINES, str(port), script, recipe.config, '1',
             '--work-dir', machines, *options)
        _require_equal(processes, machines)
        _drop_weights(machines)
    _drop_weights(processes)


def mim(recipe: Recipe) -> None:
    """Train by ``mim train``."""
    folder = Path('runs', f'{recipe.run}-mim')
    _run('mim', 'train', recipe.toolbox, recipe.config, '--work-dir', folder,
         '--cfg-options', *recipe.lengths(), *recipe.weights)
    _drop_weights(folder)


def _run(*command: str | Path) -> None:
    """Run a command; raise CalledProcessError if it fails or hangs."""
    command = ['timeout', str(PATIENCE), *map(str, command)]
    print('$', *command, flush=True)
    path = f'{Path(sys.executable).parent}:{os.environ["PATH"]}'
    subprocess.run(command, check=True, env=dict(
        os.environ, PATH=path, PYTHON=sys.executable))
