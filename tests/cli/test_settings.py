# Copyright (c) QB-Heat MM authors. All rights reserved.
from pathlib import Path

import mmpretrain
import pytest
import torch

from qbheat_mm.cli import read_config
from qbheat_mm.cli.settings import require_file
from qbheat_mm.errors import UserError


@pytest.fixture
def config(tmp_path):
    file = tmp_path / 'a.py'
    file.write_text(
        "default_scope = 'mmpretrain'\n"
        'train_dataloader = dict(batch_size=2, num_workers=2, '
        'persistent_workers=True, prefetch_factor=2)\n'
        "val_dataloader = dict(num_workers=2, collate_fn=dict(type='own'))\n"
        'test_dataloader = None\n'
        'model = dict(head=dict(num_classes=2))\n')
    return str(file)


def test_options_replace_settings(config):
    cfg = read_config(config, {'model.head.num_classes': 3,
                               'load_from': 'a.pth'})
    assert cfg.model.head.num_classes == 3
    assert cfg.load_from == 'a.pth'


def test_loaders_of_mmpretrain_get_its_defaults_and_keep_their_own(config):
    cfg = read_config(config)
    assert cfg.train_dataloader.collate_fn.type == 'default_collate'
    assert cfg.val_dataloader.collate_fn.type == 'own'
    assert cfg.val_dataloader.persistent_workers
    assert cfg.val_dataloader.pin_memory == torch.cuda.is_available()
    assert cfg.test_dataloader is None


def test_loaders_of_mmdet_are_left_alone(config):
    text = Path(config).read_text()
    Path(config).write_text(text.replace('mmpretrain', 'mmdet'))
    cfg = read_config(config)
    assert 'collate_fn' not in cfg.train_dataloader


def test_no_workers_is_one_setting(config):
    loader = read_config(
        config, {'train_dataloader.num_workers': 0}).train_dataloader
    dataset = torch.utils.data.TensorDataset(torch.zeros(2))
    settings = {name: loader[name] for name in loader if name != 'collate_fn'}
    torch.utils.data.DataLoader(dataset, **settings)


def test_settings_of_the_runner_are_known_though_unset(config):
    read_config(config, {'auto_scale_lr.base_batch_size': 8,
                         'find_unused_parameters': True})
    with pytest.raises(UserError, match="no setting 'lr'"):
        read_config(config, dict(lr=1))


@pytest.mark.parametrize('content', [
    'model = dict()'.encode('utf-8-sig'), '# für'.encode('latin-1')])
def test_configurations_of_other_editors(tmp_path, content):
    path = tmp_path / 'a.py'
    path.write_bytes(content)
    with pytest.raises(UserError, match='save it as UTF-8, without a byte'):
        read_config(str(path), {})


def test_a_folder_is_no_checkpoint(tmp_path):
    with pytest.raises(UserError, match=r'\(--resume\) is a folder: give a '
                       'file in it'):
        require_file(str(tmp_path), '--resume')
    with pytest.raises(UserError, match='does not exist'):
        require_file(str(tmp_path / 'a.pth'), '--resume')


def test_helpers_of_a_file_are_not_settings(config, monkeypatch):
    """Their option would change nothing, without a word."""
    Path(config).write_text(
        "data_root = 'a/'\nwidth = 3\ncount_classes = False\n"
        'train_dataloader = dict(dataset=dict(data_root=data_root))\n'
        'model = dict(backbone=dict(depth=width))\n')
    with pytest.raises(UserError, match=r"data_root: '.*' makes other settings"
                       r" of 'data_root' .*: write it in the file, or set "
                       r'train_dataloader\.dataset\.data_root \('):
        read_config(config, dict(data_root='b/'))
    with pytest.raises(UserError, match=r'write it in the file \('):
        read_config(config, dict(width=4))
    assert read_config(config, dict(count_classes=True)).count_classes
    monkeypatch.setenv('QBHEAT_UNCHECKED_SETTINGS', '1')
    assert read_config(config, dict(width=4)).width == 4


@pytest.mark.parametrize('option', [
    {'optim_wrapper.clip_grad.max_norm': 3.},
    {'optim_wrapper.clip_grad': {'max_norm': 3.}}])
@pytest.mark.parametrize('base', ['', 'clip_grad=None', 'clip_grad=dict()'])
def test_what_is_none_is_unset(tmp_path, base, option):
    file = tmp_path / 'a.py'
    file.write_text(f'optim_wrapper = dict({base})\ntest_cfg = None\n')
    cfg = read_config(str(file), dict(option))
    assert cfg.optim_wrapper.clip_grad == dict(max_norm=3.)
    with pytest.raises(UserError, match='does not fit'):
        read_config(str(file), {'test_cfg.fp16': True})


@pytest.mark.parametrize('name, text, reason', [
    ('a.py', 'model = dict(', 'SyntaxError'),
    ('a.py', "_base_ = 'nowhere.py'\n", 'nowhere.py'),
    ('a.py', 'model = 1 / 0\n', 'ZeroDivisionError'),
    ('a.py', "_base_ = 'a.py'\n", 'inherits from itself'),
    ('a.py', '\0\1', ''), ('a.py', b'\xff\xfe\x00', ''),
    ('a.json', '{', ''), ('a.json', '[1]', ''), ('a.yaml', '{', ''),
    ('a.txt', 'model = 1', ''), ('a', 'model = 1', ''),
    ('a.py', 'model = 3\n', 'model=3 must be a dict'),
    ('a.py', "default_scope = 'mmpretrain'\ntrain_dataloader = 3\n",
     'train_dataloader=3 must be a dict'),
    ('a.py', "custom_imports = dict(imports=['nowhere'], "
     'allow_failed_imports=False)\n', 'nowhere')])
def test_files_that_are_no_configuration(tmp_path, name, text, reason):
    file = tmp_path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError) as error:
        read_config(str(file))
    line = str(error.value)
    assert str(file) in line and reason in line and '\n' not in line


def test_a_folder_is_no_configuration(tmp_path):
    with pytest.raises(UserError, match='is a folder'):
        read_config(str(tmp_path))


@pytest.mark.parametrize('option', [
    {'model.head.num_classes.x': 3},
    {'train_dataloader.batch_size': 'two'}, {'model': 3},
    {'train_dataloader.3.a': 1}, {'train_dataloader..x': 1}])
def test_options_that_do_not_fit_are_named(config, option):
    with pytest.raises(UserError) as error:
        read_config(config, option)
    assert '--cfg-options' in str(error.value)
    assert '\n' not in str(error.value)


def test_settings_of_groups_may_be_those_of_hooks():
    file = (Path(mmpretrain.__file__).parent / '.mim/configs/simsiam/'
            'simsiam_resnet50_8xb32-coslr-100e_in1k.py')
    if not file.is_file():
        pytest.skip('mmpretrain lies here without its configurations')
    keys = 'optim_wrapper.paramwise_cfg.custom_keys.predictor'
    read_config(str(file))
    for wrong in ({f'{keys}.fix_lrs': True}, {'custom_hooks': []}):
        with pytest.raises(UserError, match=f'{keys}.fix_lr'):
            read_config(str(file), wrong)


@pytest.mark.parametrize('name', [
    'vfnet/vfnet_r50_fpn_1x_coco',  # leaves a constructor out
    'dcnv2/faster-rcnn_r50-mdconv-c3-c5_fpn_1x_coco'])  # a former name
def test_arguments_that_take_another_way_are_known(name):
    mmdet = pytest.importorskip('mmdet')
    file = Path(mmdet.__file__).parent / f'.mim/configs/{name}.py'
    if not file.is_file():
        pytest.skip('mmdet lies here without its configurations')
    read_config(str(file))
    with pytest.raises(UserError, match='model.backbone.dpeth'):
        read_config(str(file), {'model.backbone.dpeth': 1})


@pytest.mark.parametrize('name', [
    'mask-rcnn_mf-285m_own-data', 'faster-rcnn_mf-285m_fpn_frozen_8xb2-1x_coco'
])
def test_stages_of_a_detector_have_settings_of_their_own(name):
    """One level above nothing reads them, and they were taken."""
    file = str(Path(__file__).parents[2] / f'configs/qbheat/coco/{name}.py')
    for setting in ('rcnn.score_thr', 'rcnn.max_per_img', 'rpn.nms_pre'):
        read_config(file, {f'model.test_cfg.{setting}': 1})
        short = setting.split('.')[1]
        with pytest.raises(UserError, match=f'model.test_cfg.{short}: .* '
                           'below rpn and rcnn, and does not read'):
            read_config(file, {f'model.test_cfg.{short}': 1})
