# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Which device a run gets, and what marks its row."""
import json
import runpy
import sys
from pathlib import Path

import pytest
import torch

from projects.drawn_world.demo.jobs import Job, JobRunner
from projects.drawn_world.study.machine import (
    default_devices,
    machine,
    visible,
)
from qbheat_mm.errors import UserError

TOOLS = Path(__file__).parents[2] / 'tools/study'


@pytest.fixture
def gpus(monkeypatch):
    """Three GPUs, the last of another kind."""
    kinds = ['A', 'A', 'B']
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: len(kinds))
    monkeypatch.setattr(torch.cuda, 'get_device_name', lambda device: kinds[
        torch.device(device).index or 0])


def test_rows_are_marked_by_the_kind(gpus):
    assert machine(['cpu']) == machine(['cpu:0']) == 'cpu'
    assert machine(['cuda']) == machine(['cuda:1', 'cuda:0']) == 'A'
    assert machine(['cuda:2']) == 'B'
    for several in (['cuda:0', 'cuda:2'], ['cpu', 'cuda:1']):
        with pytest.raises(UserError, match='one kind'):
            machine(several)


@pytest.mark.parametrize('device', ['mps', 'xpu:1', 'meta'])
def test_other_devices_are_refused(device):
    with pytest.raises(UserError, match=f"'{device}'.*give 'cuda'"):
        machine([device])


def test_all_gpus_are_taken_or_the_cpu(gpus, monkeypatch):
    assert default_devices() == ['cuda:0', 'cuda:1', 'cuda:2']
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: 0)
    assert default_devices() == ['cpu']


def test_devices_are_counted_among_those_that_are_seen(monkeypatch):
    monkeypatch.delenv('CUDA_VISIBLE_DEVICES', raising=False)
    assert visible(['cuda:1', 'cuda', 'cpu']) == ['1', '0', '-1']
    assert visible(['cpu:0']) == ['-1']
    monkeypatch.setenv('CUDA_VISIBLE_DEVICES', '4,GPU-7')
    assert visible(['cuda:1', 'cuda', 'cpu']) == ['GPU-7', '4', '-1']


def test_jobs_side_by_side_get_different_devices(tmp_path):
    code = ('import os, time; time.sleep(.3); '
            'print(os.environ["CUDA_VISIBLE_DEVICES"])')
    command = [sys.executable, '-S', '-c', code]
    JobRunner(tmp_path, slots=2, devices=['3', '5']).run(
        [Job('a', command), Job('b', command),
         Job('c', command, needs=['b']), Job('d', command, needs=['c'])])
    got = [(tmp_path / f'{name}.log').read_text().strip() for name in 'abcd']
    assert got[:2] == ['3', '5'] and set(got) == {'3', '5'}


def report(*arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(TOOLS)
        patch.setattr(sys, 'argv', ['report', *map(str, arguments)])
        runpy.run_path(str(TOOLS / 'report.py'), run_name='__main__')


def test_a_report_of_no_rows_is_not_written(tmp_path):
    """It would replace one that says something."""
    rows = tmp_path / 'rows.jsonl'
    common = ['--results', rows, '--out', tmp_path / 'docs']
    with pytest.raises(SystemExit, match=r'run tools/study/run\.py'):
        report(*common)
    rows.write_text(json.dumps(dict(
        arm='qbheat', seed=0, stage='lin', metrics={'top-1': 1.}, seconds=1.,
        machine='some GPU')))
    with pytest.raises(SystemExit, match="give --machine one of 'some GPU'"):
        report(*common)
    assert not (tmp_path / 'docs').exists()
    report(*common, '--machine', 'some GPU')
    assert 'some GPU' in (tmp_path / 'docs/evidence.md').read_text()


def test_a_report_is_of_the_first_of_mixed_gpus(gpus, tmp_path):
    """It has no --device to choose by; --machine names others."""
    rows = tmp_path / 'rows.jsonl'
    rows.write_text(json.dumps(dict(
        arm='qbheat', seed=0, stage='lin', metrics={'top-1': 1.}, seconds=1.,
        machine='A')))
    report('--results', rows, '--out', tmp_path / 'docs')
    assert 'runs on: A.' in (tmp_path / 'docs/evidence.md').read_text()
