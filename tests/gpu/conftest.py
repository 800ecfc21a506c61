# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Tests that need a GPU: `make test-gpu`.

``QBHEAT_TEST_DEVICE=cpu`` runs them on the CPU, to test the tests.
"""
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ..helpers.tools import ROOT
from .device import DEVICE


def pytest_collection_modifyitems(items):
    if DEVICE == 'cuda' and not torch.cuda.is_available():
        for item in items:
            if Path(__file__).parent in Path(item.path).parents:
                item.add_marker(pytest.mark.skip(reason='needs a GPU'))


@pytest.fixture(scope='session')
def train(tmp_path_factory):
    """A function that runs tools/train.py; returns the last checkpoint."""
    cache = tmp_path_factory.mktemp('cache')

    def run(config, work_dir, *arguments, options=()):
        command = [
            sys.executable, ROOT / 'tools/train.py',
            ROOT / 'projects/drawn_world/configs' / config,
            '--work-dir', work_dir, *arguments, '--cfg-options',
            'train_dataloader.dataset.sizes=tiny',
            'train_dataloader.batch_size=4', 'custom_hooks=[]', *options]
        if DEVICE == 'cuda':
            command.insert(3, '--amp')
        subprocess.run(list(map(str, command)), check=True,
                       env=dict(os.environ, QBHEAT_CACHE=str(cache)))
        file = (Path(work_dir) / 'last_checkpoint').read_text()
        return torch.load(file, map_location='cpu', weights_only=False)

    return run
