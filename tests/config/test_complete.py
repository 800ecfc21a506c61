# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Tools, runs and the API complete a config in the same way."""
import pytest
import torch
from mmengine.config import Config
from mmpretrain.registry import MODELS

from qbheat_mm.apis import build_encoder, load_encoder, load_heads
from qbheat_mm.config.complete import complete
from qbheat_mm.config.reading import open_config, read_config
from qbheat_mm.engine import AutoScaleRunner
from qbheat_mm.errors import UserError
from qbheat_mm.export import export_encoder
from qbheat_mm.trained import Encoder, Normalization

from ..helpers.tools import ROOT

CONFIGS = ROOT / 'configs/qbheat'
LINEAR = str(CONFIGS / 'benchmarks/'
             'mf-285m_1xb256-linear-coslr-90e_own-folders.py')
PRETRAINING = str(CONFIGS / 'qbheat_mf-285m_1xb64-amp-coslr-80e_own-images.py')
SETTINGS = dict(type='ResNet', depth=18, base_channels=4, stem_channels=4)


@pytest.fixture(scope='module')
def encoder(tmp_path_factory):
    """The file of a tiny encoder."""
    network = Encoder(MODELS.build(SETTINGS), Normalization(),
                      settings=SETTINGS)
    return export_encoder(
        network, tmp_path_factory.mktemp('encoder') / 'a.safetensors')


@pytest.fixture
def config(encoder, tmp_path):
    """A config that names the file by itself."""
    file = tmp_path / 'config.py'
    file.write_text(f"_base_ = '{LINEAR}'\nencoder = '{encoder}'\n")
    return str(file)


@pytest.mark.parametrize('name', ['encoder', 'teacher'])
@pytest.mark.parametrize('value', ['', ' ', False, 5, []])
def test_a_setting_without_a_file_is_refused(name, value):
    """As the text of an unset variable of the shell."""
    cfg = Config.fromfile(PRETRAINING)
    cfg[name] = value
    with pytest.raises(UserError, match=f'^{name}=') as error:
        read_config(PRETRAINING, {name: value})
    assert '\n' not in str(error.value)
    for function in (open_config, complete, AutoScaleRunner.from_cfg):
        with pytest.raises(UserError, match=f'^{name}='):
            function(cfg)


@pytest.mark.parametrize('path', [
    'nowhere.pth', '.', '~/nowhere.pth', 'file:///nowhere.pth',
    'http://127.0.0.1:9/a.pth'])
def test_other_paths_are_refused_in_one_line(path):
    with pytest.raises(UserError) as error:
        read_config(LINEAR, dict(encoder=path))
    assert '\n' not in str(error.value)


def test_a_file_may_be_below_the_home_folder(encoder, monkeypatch):
    folder, name = encoder.rsplit('/', 1)
    monkeypatch.setenv('HOME', folder)
    cfg = read_config(LINEAR, dict(encoder=f'~/{name}'))
    backbone = MODELS.build(cfg.model.backbone)
    backbone.init_weights()
    assert torch.equal(backbone.network.conv1.weight,
                       load_encoder(encoder).backbone.conv1.weight)


def test_a_completed_config_completes_to_itself(config, folders):
    cfg = read_config(config, {
        'train_dataloader.dataset.data_root': str(folders),
        'model.head.num_classes': 7})
    assert cfg.model.head.num_classes == 7  # a run has data to count them
    complete(cfg, count=True)
    assert 'encoder' not in cfg and cfg.model.head.num_classes < 7
    given = cfg.to_dict()
    complete(cfg, count=True)
    assert cfg.to_dict() == given


def test_users_get_the_encoder_of_a_config(config, encoder, tmp_path):
    """Also from the config of a run before it is completed."""
    built = build_encoder(config)
    assert torch.equal(built.backbone.conv1.weight,
                       load_encoder(encoder).backbone.conv1.weight)
    weights = tmp_path / 'a.pth'
    torch.save(built.backbone.state_dict(), weights)
    assert load_encoder(str(weights), config).name == built.name
    cfg = read_config(config)
    model, checkpoint = MODELS.build(cfg.model), tmp_path / 'model.pth'
    torch.save(dict(state_dict=model.state_dict()), checkpoint)
    heads = load_heads(dict(a=(config, str(checkpoint))))
    assert heads.encoder.settings['depth'] == 18
