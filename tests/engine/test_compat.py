# Copyright (c) QB-Heat MM authors. All rights reserved.
import os
import pickle

import numpy as np
import pytest
import torch
from mmengine.logging import HistoryBuffer, MessageHub
from mmengine.runner import CheckpointLoader

from qbheat_mm import compat
from qbheat_mm.errors import UserError


class Evil:
    """Runs a command when the ordinary unpickler loads it."""

    def __init__(self, flag):
        self.flag = flag

    def __reduce__(self):
        return os.mkdir, (str(self.flag), )


def test_history_of_a_run_loads_as_it_was(tmp_path):
    hub = MessageHub.get_instance('test_compat')
    for value in (3., 1., 2.):
        hub.update_scalar('train/loss', value)
    hub.update_info('best', np.float32(0.5))
    file = tmp_path / 'epoch_1.pth'
    torch.save(dict(message_hub=hub.state_dict(), counts=np.arange(3)), file)

    loaded = CheckpointLoader.load_checkpoint(str(file))

    history = loaded['message_hub']['log_scalars']['train/loss']
    assert isinstance(history, HistoryBuffer)
    assert history.data[0].tolist() == [3., 1., 2.]
    assert history.statistics('mean') == 2.
    assert loaded['message_hub']['runtime_info']['best'] == np.float32(0.5)
    assert loaded['counts'].tolist() == [0, 1, 2]


@pytest.mark.parametrize('load', [
    CheckpointLoader.load_checkpoint,
    compat.load_checkpoint,
])
def test_other_objects_are_refused_and_not_run(tmp_path, load):
    flag, file = tmp_path / 'executed', tmp_path / 'evil.pth'
    torch.save(dict(state_dict=Evil(flag)), file)

    with pytest.raises(UserError) as error:
        load(str(file))

    assert not flag.exists()
    message = str(error.value)
    assert 'evil.pth' in message and 'mkdir' in message
    assert 'state_dict alone' in message and '\n' not in message
    # The file is one that would have run: else this test tests nothing.
    torch.load(file, weights_only=False)
    assert flag.exists()


def test_getattr_gives_out_nothing_but_statistics(tmp_path):

    class Reach:

        def __init__(self, *path):
            self.path = path

        def __reduce__(self):
            return getattr, self.path

    for path in ((HistoryBuffer, '__globals__'), (HistoryBuffer, '__init__'),
                 (np.ndarray, 'tofile'), (HistoryBuffer, 'no_such')):
        file = tmp_path / 'reach.pth'
        torch.save(dict(x=Reach(*path)), file)
        with pytest.raises(UserError, match='getattr'):
            CheckpointLoader.load_checkpoint(str(file))


def test_loaders_that_ask_for_the_unsafe_unpickler_are_made_safe(tmp_path):
    flag, file = tmp_path / 'executed', tmp_path / 'evil.pth'
    torch.save(Evil(flag), file)

    def unsafe(filename, map_location=None):
        return torch.load(filename, map_location, weights_only=False)

    with pytest.raises(UserError, match='refused'):
        compat.guard(unsafe)(str(file))
    assert not flag.exists()
    assert compat.FORCE_SAFE not in os.environ


@pytest.mark.parametrize('scheme', [
    'https://host/a.pth', 'torchvision://resnet50', 'openmmlab://detr'
])
def test_loaders_of_urls_are_guarded(scheme):
    assert hasattr(
        CheckpointLoader._get_checkpoint_loader(scheme), '__wrapped__')


@pytest.mark.parametrize('content', ['cut', 'empty', 'text', 'cut pickle'])
def test_a_damaged_file_is_named_in_one_line(tmp_path, content):
    file = tmp_path / 'epoch_7.pth'
    torch.save(dict(weight=torch.rand(100)), file)
    if content == 'cut':
        file.write_bytes(file.read_bytes()[:-200])
    elif content == 'empty':
        file.write_bytes(b'')
    elif content == 'text':
        file.write_text('<html>404 not found</html>')
    else:
        file.write_bytes(pickle.dumps(dict(a=list(range(99))))[:50])
    with pytest.raises(UserError) as error:
        CheckpointLoader.load_checkpoint(str(file))
    assert 'epoch_7.pth' in str(error.value)
    assert '\n' not in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match='nowhere.pth'):
        compat.load_checkpoint(str(tmp_path / 'nowhere.pth'))


def test_python_text_in_a_checkpoint_is_not_run_on_resume(tmp_path):
    file = tmp_path / 'epoch_1.pth'
    torch.save(dict(meta=dict(config='import os', epoch=1)), file)
    assert CheckpointLoader.load_checkpoint(str(file))['meta'] == dict(epoch=1)
