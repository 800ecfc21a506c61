# Copyright (c) QB-Heat MM authors. All rights reserved.
import contextlib
import gzip
import os
import pickle
import tarfile
import zipfile

import numpy as np
import pytest
import torch
from mmengine.config import Config
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


@pytest.mark.parametrize('text', [
    "__import__('os').mkdir('{flag}')",
    "_base_ = [__import__('os').mkdir('{flag}')]",
    "model = dict(type=__import__('os').mkdir('{flag}'))",
    # mmengine replaces {{$X:...}} by what follows the colon: here, where
    # Python sees two texts, by what ends the first one before the code.
    "a = ['\\{{{{$NOT_SET:',',}}}}__import__(\"os\").mkdir(\"{flag}\")#'\n]",
])
def test_a_configuration_in_a_checkpoint_is_not_run(tmp_path, monkeypatch,
                                                    text):
    monkeypatch.delenv('NOT_SET', raising=False)
    flag, file = tmp_path / 'executed', tmp_path / '{{x}}.pth'
    text = text.format(flag=flag)
    hub = dict(runtime_info=dict(cfg=text))
    torch.save(dict(meta=dict(cfg=text), message_hub=hub,
                    state_dict=dict(a=torch.ones(1))), file)

    loaded = CheckpointLoader.load_checkpoint(str(file))

    # Guarded twice, or saved and loaded again, it stays what it is.
    again = compat.load_checkpoint(str(file))
    assert again['meta'] == loaded['meta'] and (
        again['meta']['refused_cfg'] == text)
    # The weights are there all the same.
    assert loaded['state_dict']['a'].tolist() == [1.]
    for harmless in (loaded['meta']['cfg'],
                     loaded['message_hub']['runtime_info']['cfg']):
        with pytest.raises(UserError) as error:
            Config.fromstring(harmless, '.py')
        assert not flag.exists()
        message = str(error.value)
        assert '((x)).pth' in message and '\n' not in message
        assert 'give the configuration file' in message
    # The text is one that would have run: else this test tests nothing.
    with contextlib.suppress(Exception):
        Config.fromstring(text, '.py')
    assert flag.exists()


@pytest.mark.parametrize('ending', [
    '_base_ = [open("flag", "w")]', "('a') or open('flag', 'w')", ''])
def test_a_text_that_looks_like_the_harmless_one_is_replaced(tmp_path, ending):
    file = tmp_path / 'a.pth'
    for text in (f"{compat._RAISE}('a')\n{ending}\n",
                 f"{compat._RAISE}{ending or '()'}\n"):
        torch.save(dict(meta=dict(cfg=text)), file)
        loaded = compat.load_checkpoint(str(file))
        assert 'a.pth' in loaded['meta']['cfg']


def test_a_plain_configuration_in_a_checkpoint_stays(tmp_path):
    file = tmp_path / 'epoch_1.pth'
    text = Config(dict(model=dict(type='ResNet', depth=18))).pretty_text
    torch.save(dict(meta=dict(cfg=text)), file)
    loaded = CheckpointLoader.load_checkpoint(str(file))
    assert loaded['meta'] == dict(cfg=text)
    assert Config.fromstring(loaded['meta']['cfg'], '.py').model.depth == 18


def test_every_changed_byte_of_a_tensor_is_noticed(tmp_path):
    file = tmp_path / 'epoch_1.pth'
    torch.save(dict(a=torch.arange(64.)), file)
    whole = file.read_bytes()
    start = whole.index(torch.arange(64.).numpy().tobytes())
    for place in (start, start + 99, start + 255):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) +
                         whole[place + 1:])
        with pytest.raises(UserError, match='damaged'):
            CheckpointLoader.load_checkpoint(str(file))


@pytest.mark.skipif(not hasattr(torch.serialization, 'set_crc32_options'),
                    reason='this torch always writes check sums')
def test_a_file_without_check_sums_loads(tmp_path):
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(dict(a=torch.ones(3)), tmp_path / 'a.pth')
    finally:
        torch.serialization.set_crc32_options(before)
    loaded = CheckpointLoader.load_checkpoint(str(tmp_path / 'a.pth'))
    assert loaded['a'].tolist() == [1., 1., 1.]


def test_a_folder_a_pipe_and_a_dangling_link_are_told(tmp_path):
    os.mkfifo(tmp_path / 'pipe.pth')
    (tmp_path / 'link.pth').symlink_to(tmp_path / 'gone.pth')
    for name, error, words in (
            ('', UserError, 'is a folder'),
            ('pipe.pth', UserError, 'no ordinary file'),
            ('link.pth', FileNotFoundError, 'gone.pth')):
        with pytest.raises(error, match=words):
            CheckpointLoader.load_checkpoint(str(tmp_path / name))
    with pytest.raises(UserError, match='no ordinary file'):
        CheckpointLoader.load_checkpoint('/dev/zero')


def torchscript(file):
    torch.jit.save(torch.jit.trace(torch.nn.Linear(1, 1), torch.ones(1, 1)),
                   str(file))


def archive(file):
    with zipfile.ZipFile(file, 'w') as writer:
        writer.writestr('weights.bin', b'x')


def tar(file):
    with tarfile.open(file, 'w') as writer:
        writer.add(__file__)


@pytest.mark.parametrize('write,words', [
    (torchscript, 'torch.jit.load'), (archive, 'zip archive'),
    (tar, 'tar archive'),
    (lambda file: np.savez(file.open('wb'), a=np.ones(2)), 'numpy arrays'),
    (lambda file: np.save(file.open('wb'), np.ones(2)), 'array of numpy'),
    (lambda file: file.write_bytes(b'\x89PNG\r\n\x1a\n'), 'a picture'),
    (lambda file: file.write_bytes(gzip.compress(b'x')), 'compressed'),
    (lambda file: file.write_text('{"a": 1}'), 'a text'),
    (lambda file: file.write_bytes(b'\x80'), 'cut, damaged or no torch'),
    (lambda file: torch.save([1, 2], file), 'holds no tensors at all'),
    (lambda file: torch.save(3, file), 'holds no tensors at all'),
    (lambda file: torch.save(torch.ones(2), file), 'no tensors at all'),
    (lambda file: torch.save({0: torch.ones(2)}, file), 'has 0 where'),
    (lambda file: torch.save(dict(state_dict=[1]), file), 'no tensors'),
    (lambda file: torch.save(dict(state_dict={(1, ): 2}), file), 'where'),
])
def test_a_file_of_another_kind_is_named_in_one_line(tmp_path, write, words):
    file = tmp_path / 'epoch_7.pth'
    write(file)
    for load in (CheckpointLoader.load_checkpoint, compat.load_checkpoint):
        with pytest.raises(UserError) as error:
            load(str(file))
        message = str(error.value)
        assert 'epoch_7.pth' in message and words in message
        assert '\n' not in message


def test_an_address_without_an_answer_is_told_in_one_line():
    with pytest.raises(UserError, match='cannot be read.*network'):
        compat.load_checkpoint('http://127.0.0.1:9/a.pth')
    with pytest.raises(UserError, match='cannot be read'):
        compat.load_checkpoint('torchvision://no_such_network')
