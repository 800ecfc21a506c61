# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What is rehearsed: each function returns normally, or raises.

They run in a folder with ``data``, see :func:`recipes.draw_all`, and leave
their results in ``runs``.
"""
import json
import os
import runpy
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from mmengine.registry import DATASETS, MODELS, DefaultScope

from qbheat_mm import cli
from qbheat_mm.engine.random_state import mix, seed_generators
from qbheat_mm.trained.safe_load import safe_load

from .recipes import LAST, ROOT, STEPS, Recipe

#: Number of the first images, which have each size and kind of file.
UNUSUAL = 20
#: Seconds after which a command hangs.
PATIENCE = 900


class Failure(Exception):
    """A stage ended, with a wrong result."""


def run_tool(name: str, *args) -> None:
    """Do what ``python tools/NAME ARGS`` does, in this process."""
    file = ROOT / 'tools' / name
    before = sys.argv
    sys.argv = [str(file), *map(str, args)]
    try:
        runpy.run_path(str(file), run_name='__main__')
    finally:
        sys.argv = before


def build(recipe: Recipe, samples: int) -> None:
    """Build the model, and load samples by the training pipeline.

    Every second sample is one of the unusual first images.

    Raises:
        Failure: If any sample fails.
    """
    cfg = cli.read_config(recipe.config)
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
    _forget()
    run_tool('train.py', recipe.config, '--work-dir', resumed, '--resume',
             '--no-validate', *options)
    _require_equal(run, resumed)
    shutil.rmtree(resumed)
    _drop_weights(run, keep=LAST)


def _forget() -> None:
    """Let the next run have its own logger, as in a new process."""
    from mmengine.logging import MessageHub, MMLogger
    from mmengine.visualization import Visualizer
    for manager in (DefaultScope, MessageHub, MMLogger, Visualizer):
        manager._instance_dict.clear()


def _test(recipe: Recipe, run: Path) -> None:
    """Test a checkpoint; raise Failure if training measured another value."""
    _forget()
    out = run / 'metrics.json'
    run_tool('test.py', recipe.config, run / LAST, '--work-dir', run / 'test',
             '--out-metrics', out, '--cfg-options', *recipe.lengths())
    measured = json.loads(out.read_text()).get(recipe.metric)
    logged = []
    for file in run.glob('*/vis_data/scalars.json'):
        for line in file.read_text().splitlines():
            logged.append(json.loads(line).get(recipe.metric))
    if measured is None or measured not in logged:
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


def launch(recipe: Recipe) -> None:
    """Train by two processes, and by two machines of one process each.

    Raises:
        Failure: If a launch fails, or their weights differ.
    """
    one, two = (Path('runs', f'{recipe.run}-{name}')
                for name in ('processes', 'machines'))
    script = str(ROOT / 'tools/dist_train.sh')
    options = ['--cfg-options', *recipe.lengths(processes=2), *recipe.weights]
    _finish([_start([script, recipe.config, '2', '--work-dir', str(one),
                     *options])])
    port = str(29000 + os.getpid() % 1000)
    machines = []
    for rank in '01':
        machines.append(_start(
            [script, recipe.config, '1', '--work-dir', str(two), *options],
            NNODES='2', NODE_RANK=rank, MASTER_ADDR='127.0.0.1', PORT=port))
    _finish(machines)
    _require_equal(one, two)
    _drop_weights(one)
    _drop_weights(two)


def mim(recipe: Recipe) -> None:
    """Train by ``mim train``."""
    folder = Path('runs', f'{recipe.run}-mim')
    _finish([_start(['mim', 'train', recipe.toolbox, recipe.config,
                     '--work-dir', str(folder), '--cfg-options',
                     *recipe.lengths(), *recipe.weights])])
    _drop_weights(folder)


def _start(command: Sequence[str], **environment: str) -> subprocess.Popen:
    print('$', *environment.items(), *command, flush=True)
    path = f'{Path(sys.executable).parent}:{os.environ["PATH"]}'
    return subprocess.Popen(
        command, start_new_session=True, env=dict(
            os.environ, PATH=path, PYTHON=sys.executable, **environment))


def _finish(processes: Sequence[subprocess.Popen]) -> None:
    """Wait for commands; end them all if one fails or hangs."""
    end = time.monotonic() + PATIENCE
    try:
        for process in processes:
            status = process.wait(max(end - time.monotonic(), 1))
            if status:
                raise Failure(f'exit status {status}')
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                if process.poll() is None:
                    os.killpg(process.pid, 9)
