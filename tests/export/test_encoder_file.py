# Copyright (c) QB-Heat MM authors. All rights reserved.
"""An encoder in a file of safetensors, out and back."""
import hashlib
import json
from pathlib import Path

import pytest
import torch
from mmengine.registry import MODELS, DefaultScope
from mmengine.runner.checkpoint import CheckpointLoader

from qbheat_mm import compat
from qbheat_mm.apis import load_encoder
from qbheat_mm.engine import PretrainedEncoder
from qbheat_mm.engine.origin import describe_backbone, trained_pixels
from qbheat_mm.errors import UserError
from qbheat_mm.export import export_encoder, export_state_dict
from qbheat_mm.version import __version__

from .conftest import MOBILE_FORMER

safetensors = pytest.importorskip('safetensors')


@pytest.fixture(scope='module')
def file(pretrained, tmp_path_factory):
    """The encoder of a pre-training, from nothing but its checkpoint."""
    out = tmp_path_factory.mktemp('out') / 'new' / 'encoder.safetensors'
    return export_encoder(pretrained[2], str(out))


def texts_of(file):
    with safetensors.safe_open(file, 'pt') as opened:
        return opened.metadata()


def test_another_program_reads_the_weights_by_the_encoders_names(
        file, pretrained):
    from safetensors.torch import load_file
    network = pretrained[3]
    tensors = load_file(file)
    assert tensors.keys() == network.backbone.state_dict().keys()
    for name, tensor in network.backbone.state_dict().items():
        assert torch.equal(tensors[name], tensor), name


def test_the_texts_say_what_it_is(file, pretrained):
    texts = texts_of(file)
    backbone = json.loads(texts['backbone'])
    assert backbone['type'] == 'MobileFormer'
    assert backbone['arch']['tokens'] == [3, 16]
    assert json.loads(texts['mean']) == [120., 110., 100.]
    assert json.loads(texts['std']) == [60., 50., 55.]
    assert texts['channel_order'] == 'RGB'
    assert texts['qbheat_mm'] == __version__
    assert texts['source'] == 'epoch_1.pth'
    assert texts['source_sha256'] == hashlib.sha256(
        Path(pretrained[2]).read_bytes()).hexdigest()


def test_it_is_loaded_as_a_checkpoint(file, pretrained):
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        encoder = MODELS.build(dict(MOBILE_FORMER))
    PretrainedEncoder(file)(encoder)
    image = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        assert torch.equal(encoder.eval()(image)[0],
                           pretrained[3].backbone(image)[0])
    assert encoder.pretrained_pixels.mean == (120., 110., 100.)
    assert encoder.pretrained_pixels.rgb


def test_what_a_checkpoint_says_is_there(file):
    for load in (CheckpointLoader.load_checkpoint, compat.load_checkpoint):
        content = load(file)
        assert describe_backbone(content) == 'MobileFormer()'
        assert trained_pixels(content).std == (60., 50., 55.)


def test_load_encoder_takes_it(file, pretrained):
    encoder = load_encoder(file)
    picture = torch.randint(0, 256, (1, 3, 64, 48), dtype=torch.uint8)
    images = (picture - torch.tensor([120., 110., 100.])[:, None, None]
              ) / torch.tensor([60., 50., 55.])[:, None, None]
    with torch.no_grad():
        features, tokens = encoder(encoder.normalize(picture))
        torch.testing.assert_close(
            features, pretrained[3].extract_feat(images)[0])
    assert tokens.shape == (1, 3, 16)


def test_inferencers_find_no_whole_model_in_it(file):
    assert 'cfg' not in compat.load_checkpoint(file)['meta']


def test_an_exported_encoder_is_exported_again(file, tmp_path):
    again = export_encoder(file, str(tmp_path / 'again.safetensors'))
    kept = {name: text for name, text in texts_of(file).items()
            if not name.startswith('source')}
    assert kept.items() <= texts_of(again).items()


def test_a_file_that_says_nothing_is_asked_for_its_configuration(
        pretrained, tmp_path):
    from safetensors.torch import save_file
    file = tmp_path / 'bare.safetensors'
    save_file(pretrained[3].backbone.state_dict(), file)
    with pytest.raises(UserError, match='give the configuration'):
        export_encoder(str(file), str(tmp_path / 'a.safetensors'))
    export_encoder(str(file), str(tmp_path / 'a.safetensors'), pretrained[0])


def test_a_damaged_file_is_told_in_one_line(file, tmp_path):
    content = Path(file).read_bytes()
    damaged = {
        'pickle': (99).to_bytes(8, 'little') + b'{"a": ',
        'cut': content[:len(content) // 2], 'header': content[:30],
        'texts': content[:9] + b'\xff' * 20 + content[29:]}
    for name, broken in damaged.items():
        path = tmp_path / f'{name}.safetensors'
        path.write_bytes(broken)
        with pytest.raises(UserError, match=path.name) as error:
            compat.load_checkpoint(str(path))
        assert 'damaged file of safetensors' in str(error.value)
        assert '\n' not in str(error.value)


def test_texts_of_another_program_harm_nothing(pretrained, tmp_path):
    from safetensors.torch import save_file
    weights = pretrained[3].backbone.state_dict()
    for number, backbone in enumerate(('{', '3', '{"type": {"a": 1}}',
                                       '"x"', '[]')):
        file = tmp_path / f'{number}.safetensors'
        save_file(weights, file, dict(backbone=backbone, mean='x',
                                      channel_order='RGB'))
        trained_pixels(compat.load_checkpoint(str(file)))
        with pytest.raises(UserError) as error:
            export_encoder(str(file), str(tmp_path / 'a.safetensors'))
        assert '\n' not in str(error.value)


def test_nothing_is_left_of_a_file_that_cannot_be_written(pretrained,
                                                          tmp_path):
    with pytest.raises(UserError, match='is a folder'):
        export_encoder(pretrained[2], str(tmp_path))
    (tmp_path / 'file').write_text('')
    with pytest.raises(UserError, match='cannot be written'):
        export_encoder(pretrained[2], str(tmp_path / 'file' / 'a.safetensors'))
    assert [path.name for path in tmp_path.iterdir()] == ['file']


def test_without_the_package_the_way_out_is_named(file, pretrained, tmp_path,
                                                  monkeypatch):
    monkeypatch.setitem(__import__('sys').modules, 'safetensors', None)
    monkeypatch.setitem(__import__('sys').modules, 'safetensors.torch', None)
    with pytest.raises(UserError, match='pip install'):
        compat.load_checkpoint(file)
    with pytest.raises(UserError, match='pip install'):
        export_encoder(pretrained[2], str(tmp_path / 'a.safetensors'))


def test_images_get_the_size_that_the_checkpoint_gives_them(pretrained,
                                                            tmp_path):
    content = torch.load(pretrained[2], weights_only=False)
    content['meta']['cfg'] += """
train_dataloader = dict(dataset=dict(pipeline=[
    dict(type='RandomResizedCrop', scale=(48, 32))]))"""
    torch.save(content, tmp_path / 'epoch_1.pth')
    file = export_encoder(str(tmp_path / 'epoch_1.pth'),
                          str(tmp_path / 'encoder.safetensors'))
    assert load_encoder(tmp_path / 'epoch_1.pth').size == (48, 32)
    assert load_encoder(file).size == (48, 32)
    # the file that the run was started with may say another
    started = Path(pretrained[1]).read_text() + """
train_dataloader = dict(dataset=dict(pipeline=[
    dict(type='RandomResizedCrop', scale=64)]))"""
    (tmp_path / 'started.py').write_text(started)
    for name, size in (('epoch_1.pth', (48, 32)), (pretrained[2], (64, 64))):
        assert load_encoder(tmp_path / name, str(
            tmp_path / 'started.py')).size == size
    assert json.loads(texts_of(file)['training_size']) == [48, 32]


def test_a_checkpoint_is_not_written_over(pretrained, tmp_path):
    checkpoint = tmp_path / 'epoch_1.safetensors'
    checkpoint.write_bytes(Path(pretrained[2]).read_bytes())
    for export in (export_encoder, lambda *names: export_state_dict(
            *names, 'torchvision')):
        with pytest.raises(UserError, match='would be lost'):
            export(str(checkpoint), str(tmp_path / '.' / checkpoint.name))
    assert checkpoint.read_bytes() == Path(pretrained[2]).read_bytes()
