# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Runs of small networks, and the tool that exports them."""
import copy

import pytest
import torch

from ..helpers.networks import (
    CLASSIFIER,
    GFL,
    HEADS,
    MF_DEC,
    MOBILE_FORMER,
    RETINANET,
    pretraining,
    write_run,
)
from ..helpers.tools import run_tool


@pytest.fixture
def tool(monkeypatch, capsys, tmp_path):
    """A function that runs the tool and returns what it prints."""

    def call(*args):
        monkeypatch.chdir(tmp_path)
        capsys.readouterr()
        run_tool('export.py', *args)
        return capsys.readouterr().out

    return call


@pytest.fixture
def error_of(tool):
    """A function that returns the line that the tool ends with."""

    def call(*args):
        with pytest.raises(SystemExit) as end:
            tool(*args)
        line = str(end.value)
        assert line.startswith('error: ') and '\n' not in line
        return line

    return call


@pytest.fixture(scope='session')
def pretrained(tmp_path_factory):
    """A run of pre-training."""
    return write_run(tmp_path_factory.mktemp('pretrained'),
                     pretraining(MOBILE_FORMER, 32))


@pytest.fixture(scope='session')
def classifier(tmp_path_factory):
    """A run of `tran-1`."""
    return write_run(
        tmp_path_factory.mktemp('classifier'), CLASSIFIER,
        dataset_meta=dict(classes=['a', 'b', 'c', 'd', 'e']))


@pytest.fixture(scope='session')
def mf_dec(tmp_path_factory):
    """A run of MF-Dec."""
    pytest.importorskip('mmdet')
    import qbheat_mm.detection  # noqa: F401
    torch.manual_seed(0)  # queries, with which errors of 8-bit weights vary
    return write_run(tmp_path_factory.mktemp('mf_dec'), MF_DEC, 'mmdet')


@pytest.fixture(scope='session')
def retinanet(tmp_path_factory):
    """A run of RetinaNet."""
    pytest.importorskip('mmdet')
    import qbheat_mm.detection  # noqa: F401
    return write_run(tmp_path_factory.mktemp('retinanet'), RETINANET, 'mmdet')


@pytest.fixture(scope='session')
def gfl(tmp_path_factory):
    """A run of GFL."""
    pytest.importorskip('mmdet')
    import qbheat_mm.detection  # noqa: F401
    return write_run(tmp_path_factory.mktemp('gfl'), GFL, 'mmdet')


@pytest.fixture(scope='session')
def runs(tmp_path_factory):
    """Runs of a classifier and two detectors on one encoder."""
    pytest.importorskip('mmdet')
    import qbheat_mm.detection  # noqa: F401
    found, encoder = {}, None
    for name, model in HEADS.items():
        folder = tmp_path_factory.mktemp(name)
        found[name] = write_run(
            folder, copy.deepcopy(model),
            'mmpretrain' if name == 'classes' else 'mmdet', encoder,
            dataset_meta=dict(classes=[*'abcde'][:5 if name == 'classes'
                                                 else 3]))
        encoder = found[name][3].backbone
    return found
