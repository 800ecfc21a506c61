# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Which errors end in one line, and which keep their traceback."""
import errno
import os

import pytest
import torch
from mmengine.registry import MODELS, OPTIMIZERS
from mmengine.runner import Runner
from torch import nn
from torch.utils.data import DataLoader, Dataset

from qbheat_mm.cli.explain import explain
from qbheat_mm.errors import UserError


def line_of(call, *args, **kwargs):
    """The line for what a call raises; None for a defect."""
    with pytest.raises(Exception) as raised:
        call(*args, **kwargs)
    line = explain(raised.value)
    assert line is None or '\n' not in line
    return line


def throw(error):
    raise error


@pytest.mark.parametrize('number, hint', [
    (errno.ENOSPC, 'free space'), (errno.EROFS, '--work-dir'),
    (errno.ENAMETOOLONG, 'shorter name'), (errno.ELOOP, 'in a circle'),
    (errno.ENOTDIR, 'a file stands'), (errno.EISDIR, 'a folder stands'),
    (errno.EMFILE, 'num_workers'), (errno.EADDRINUSE, 'port'),
    (errno.EACCES, 'permissions'), (errno.EIO, '')])
def test_what_the_system_refuses(number, hint):
    line = line_of(throw, OSError(number, os.strerror(number), 'some/file'))
    assert 'some/file' in line and hint in line


def test_a_full_disk_names_the_file_though_the_error_does_not():

    def save(filepath):
        raise OSError(errno.ENOSPC, 'No space left on device')

    assert 'run/epoch_1.pth' in line_of(save, 'run/epoch_1.pth')


def test_a_work_folder_that_is_a_file_or_too_long(tmp_path):
    file = tmp_path / 'a'
    file.touch()
    for folder in (file, file / 'b', tmp_path / ('n' * 300)):
        assert str(folder) in line_of(os.makedirs, folder)


@pytest.mark.parametrize('error', [
    torch.cuda.OutOfMemoryError(
        'CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total'),
    RuntimeError('[enforce fail at alloc_cpu.cpp:118] err == 0. '
                 "DefaultCPUAllocator: can't allocate memory"),
    RuntimeError('CUDA error: CUBLAS_STATUS_ALLOC_FAILED'),
    MemoryError(), ])
def test_out_of_memory_says_what_to_lower(error):
    line = line_of(throw, error)
    assert 'out of memory' in line
    assert 'batch_size' in line and 'accumulative_counts' in line


@pytest.mark.parametrize('text', [
    'DataLoader worker (pid 7) is killed by signal: Killed.',
    'DataLoader worker (pid(s) 7, 8) exited unexpectedly',
    'DataLoader worker (pid 7) is killed by signal: Bus error. It is '
    'possible that dataloader\'s workers are out of shared memory.'])
def test_a_killed_worker(text):
    line = line_of(throw, RuntimeError(text))
    assert 'num_workers' in line and '/dev/shm' in line


class Broken(Dataset):

    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return self.prepare_data(index)

    def prepare_data(self, index):
        raise self.error


def first_batch(error, num_workers):
    next(iter(DataLoader(Broken(error), num_workers=num_workers)))


@pytest.mark.parametrize('num_workers', [0, 1])
def test_errors_of_the_data_pipeline(num_workers):
    line = line_of(first_batch, UserError('a wrong image'), num_workers)
    assert line == 'a wrong image'
    line = line_of(first_batch, ValueError('crop too large'), num_workers)
    assert 'data pipeline' in line and 'ValueError: crop too large' in line
    line = line_of(first_batch, OSError('image file is truncated'),
                   num_workers)
    assert 'image file is truncated' in line


def test_images_of_several_sizes_in_a_batch():

    class Sizes(Dataset):

        def __len__(self):
            return 2

        def __getitem__(self, index):
            return torch.zeros(index + 1)

    line = line_of(next, iter(DataLoader(Sizes(), batch_size=2)))
    assert 'to one size' in line


@pytest.mark.parametrize('settings, named', [
    (dict(type='Conv2d', in_channels=3, out_channels=4, kernel=3),
     "unexpected keyword argument 'kernel'"),
    (dict(type='Conv2d', in_channels=3, out_channels=4, kernel_size=3,
          groups=2), 'divisible by groups'),
    (dict(type='Conv2d'), 'required positional'),
    (dict(type='Conv3000'), 'Conv3000 is not in the'),
    (dict(type=3), 'type must be'), (3, 'cfg should be')])
def test_what_cannot_be_built(settings, named):
    line = line_of(MODELS.build, settings)
    assert named in line and 'QBHEAT_TRACEBACK=1' in line


def test_an_optimizer_that_cannot_be_built():
    line = line_of(OPTIMIZERS.build, dict(
        type='AdamW', params=[torch.zeros(1)], betas=(2, 2)))
    assert line.startswith('AdamW cannot be built') and 'beta' in line


def test_a_run_that_cannot_be_built(tmp_path):
    line = line_of(Runner, nn.Linear(1, 1), str(tmp_path),
                   train_cfg=dict(by_epoch=True, max_epochs=1))
    assert 'train_dataloader' in line
    assert 'cannot be built from the configuration: ValueError' in line


class Net(nn.Module):

    def __init__(self):
        super().__init__()
        self.neck = nn.ModuleList([nn.Linear(4, 8), nn.Linear(9, 2)])

    def forward(self, x):
        for layer in self.neck:
            x = layer(x)
        return x


def test_parts_that_do_not_fit_are_named():
    line = line_of(Net(), torch.zeros(2, 4))
    assert 'model.neck.1 (Linear)' in line and '2x8 and 9x2' in line


def test_maps_that_a_neck_does_not_expect_are_told():
    """mmdet asserts it, without a message."""
    necks = pytest.importorskip('mmdet.models.necks')
    net = nn.Sequential(necks.FPN([4, 8], 4, 2))
    line = line_of(net, [torch.zeros(1, 4, 2, 2)])
    assert 'do not fit together in model.0 (FPN): assert len(inputs) == ' in (
        line)


def test_a_batch_of_one_and_batch_normalization():
    net = nn.Sequential(nn.BatchNorm1d(2))
    assert '2 images at least' in line_of(net, torch.zeros(1, 2))


def test_processes_that_find_no_other(monkeypatch):
    for name in ('MASTER_ADDR', 'MASTER_PORT', 'RANK', 'WORLD_SIZE'):
        monkeypatch.delenv(name, raising=False)
    line = line_of(torch.distributed.init_process_group, backend='gloo')
    assert 'MASTER_ADDR' in line


class Defect(nn.Module):

    def __init__(self, error):
        super().__init__()
        self.error = error

    def forward(self, x):
        raise self.error


@pytest.mark.parametrize('error', [
    KeyError('a defect'), AttributeError('no such thing'), AssertionError(),
    RuntimeError('something else'), ZeroDivisionError(), TypeError('x')])
def test_defects_keep_their_traceback(error):
    assert line_of(throw, error) is None
    assert line_of(Defect(error), torch.zeros(1)) is None


def test_an_error_without_a_number_names_no_file_by_guess():
    def read(path):
        raise OSError(f'{path[:3]} holds 3 bytes too few')

    line = line_of(read, 'abcdef')
    assert 'abc holds 3 bytes' in line and 'abcdef' not in line


def test_a_process_that_lost_another(tmp_path):
    """The other one's line says why; this one's traceback hid it."""
    lost = RuntimeError('[/gloo/transport/tcp/pair.cc:547] Connection closed '
                        'by peer [::1]:4321')
    assert line_of(throw, lost) is None  # of some other program's sockets
    torch.distributed.init_process_group(
        'gloo', init_method=f'file://{tmp_path}/store', rank=0, world_size=1)
    try:
        assert 'another process of this run has stopped' in line_of(
            throw, lost)
        assert line_of(throw, RuntimeError('something else')) is None
    finally:
        torch.distributed.destroy_process_group()


def test_one_value_in_a_group_is_no_matter_of_the_batch():
    norm = nn.Sequential(nn.Conv2d(3, 4, 1), nn.GroupNorm(4, 4))
    line = line_of(norm, torch.zeros(1, 3, 1, 1))
    assert 'GroupNorm' in line and 'batch_size' not in line
    norm = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
    assert 'train_dataloader.batch_size' in line_of(
        norm, torch.zeros(1, 3, 1, 1))
