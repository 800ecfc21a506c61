# Copyright (c) QB-Heat MM authors. All rights reserved.
"""How the processes of a tool start, and end on an error."""
import json
import sys
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from mmengine.config import Config
from mmengine.registry import MODEL_WRAPPERS
from torch.utils.data import DataLoader

from qbheat_mm.cli.distributed import init_processes
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.errors import UserError


def fail(error):
    def main():
        raise error
    return main


class Broken:

    def __len__(self):
        return 1

    def __getitem__(self, index):
        raise UserError("image 'a.jpg' is cut")


@pytest.mark.parametrize('workers', [0, 1])
def test_a_user_error_is_one_line(workers):
    with pytest.raises(SystemExit) as end:
        report_user_errors(
            lambda: next(iter(DataLoader(Broken(), num_workers=workers))))
    assert end.value.code == "error: image 'a.jpg' is cut"


@pytest.mark.skipif(sys.version_info < (3, 11), reason='has no notes')
def test_other_errors_keep_their_traceback_and_name_the_command(monkeypatch):
    monkeypatch.setattr(sys, 'argv', ['tools/train.py', 'a.py', 'x=a b'])
    with pytest.raises(KeyError) as error:
        report_user_errors(fail(KeyError('a defect')))
    assert error.value.__notes__ == [
        "while running tools/train.py a.py 'x=a b': KeyError: 'a defect'"]


def test_torchrun_gets_the_line(monkeypatch, tmp_path):
    file = tmp_path / 'error.json'
    monkeypatch.setenv('TORCHELASTIC_ERROR_FILE', str(file))
    with pytest.raises(SystemExit) as end:
        report_user_errors(fail(UserError('x')))
    assert end.value.code == 1
    assert json.loads(file.read_text())['message'] == 'error: x'


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Backends and timeouts of process groups; each has one process."""
    groups, start = [], dist.init_process_group

    def start_alone(backend, timeout):
        groups.append((backend, timeout))
        start(backend, init_method=f'file://{tmp_path}/store', rank=0,
              world_size=1)

    monkeypatch.setattr(dist, 'init_process_group', start_alone)
    yield groups
    dist.destroy_process_group()


@pytest.mark.skipif(
    torch.cuda.is_available(), reason='of machines without a GPU')
def test_a_custom_wrapper_is_kept(started):
    cfg = Config(dict(
        launcher='pytorch', find_unused_parameters=False,
        env_cfg=dict(dist_cfg=dict(backend='nccl', timeout=77)),
        model_wrapper_cfg=dict(
            type='MMDistributedDataParallel', find_unused_parameters=True,
            broadcast_buffers=True, device_ids=[0])))
    init_processes(cfg)
    assert started == [('gloo', timedelta(seconds=77))]
    wrapper = MODEL_WRAPPERS.build(
        dict(cfg.model_wrapper_cfg, module=torch.nn.Linear(2, 2)))
    assert wrapper.find_unused_parameters and wrapper.broadcast_buffers
    assert wrapper.device_ids is None
