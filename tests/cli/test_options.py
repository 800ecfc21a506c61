# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Settings that would silently be ignored or misread are refused."""
import math
import os
from argparse import ArgumentParser

import pytest
import torch

from qbheat_mm.cli import require_file
from qbheat_mm.cli.arguments import (
    add_cfg_options,
    count,
    device,
    folder,
    positive,
)
from qbheat_mm.config.reading import read_config
from qbheat_mm.errors import UserError

from ..helpers.tools import ROOT

CONFIGS = ROOT / 'configs'
PRETRAIN = 'qbheat/qbheat_mf-285m_8xb128-amp-coslr-100e_in1k.py'
OWN = 'qbheat/qbheat_mf-285m_1xb64-amp-coslr-80e_own-images.py'
RETINA = 'qbheat/coco/retinanet_mf-285m_fpn_frozen_8xb2-1x_coco.py'
DETR = 'qbheat/coco/mf-dec-522_mf-285m_ft_8xb2-200e_coco.py'


def read_shipped(name, options):
    if name in (RETINA, DETR):
        pytest.importorskip('mmdet')
    return read_config(str(CONFIGS / name), options)


def parse(*options):
    parser = ArgumentParser()
    add_cfg_options(parser)
    return parser.parse_args(['--cfg-options', *options]).cfg_options


@pytest.mark.parametrize('text, value', [
    ('my images/x y.pth', 'my images/x y.pth'), ("'a, b'", 'a, b'),
    (repr('/a,b/c d.pth'), '/a,b/c d.pth'), ('(old) images', '(old) images'),
    ("('red','green thing')", ('red', 'green thing')),
    ('1,2', [1, 2]), ('a,b', ['a', 'b']), ('[(1, 2), [a, b]]',
                                          [(1, 2), ['a', 'b']]),
    ('"[8, 16]"', '[8, 16]'), ('3', 3), ('1e-4', 1e-4), ('True', True),
    ('true', True), ('None', None), ('inf', math.inf), ('', ''),
    ("{'max_norm': 3.0}", dict(max_norm=3.)), ('a=b', 'a=b'),
    ("[{'type': 'A b'}]", [dict(type='A b')])])
def test_values_of_options(text, value):
    assert parse(f'key={text}') == {'key': value}


def test_options_are_collected():
    assert parse('a=1', 'b=x,y', 'a=2') == dict(a=2, b=['x', 'y'])


@pytest.mark.parametrize('option', ['resume', '{max_norm:3}'])
def test_malformed_options(capsys, option):
    with pytest.raises(SystemExit):
        parse(option if option == 'resume' else f'a={option}')
    assert option in capsys.readouterr().err.strip().split('\n')[-1]


@pytest.mark.parametrize('kind, good, bad', [
    (count, ['12'], ['0', '-1', '1.5', 'two', '']),
    (positive, ['0.5', '2.0'], ['0', '-1', 'inf', 'nan', 'x']),
    (device, ['cpu', 'cpu:0'], ['gpu', 'cuda:99', 'meta', '0']),
    (folder, ['', 'new/and/deep'], ['file', 'file/below', 'link'])])
def test_types_of_arguments(kind, good, bad, tmp_path, capsys):
    (tmp_path / 'file').touch()
    (tmp_path / 'link').symlink_to('nowhere')
    parser = ArgumentParser()
    parser.add_argument('--x', type=kind)
    full = (lambda text: str(tmp_path / text)) if kind is folder else str
    for text in good:
        assert str(parser.parse_args(['--x', full(text)]).x) == full(text)
    for text in bad:
        with pytest.raises(SystemExit):
            parser.parse_args([f'--x={full(text)}'])
        assert f"'{full(text)}' " in capsys.readouterr().err


@pytest.fixture
def config(tmp_path):
    file = tmp_path / 'a.py'
    file.write_text(
        "default_scope = 'mmpretrain'\ndata_root = 'x'\n"
        'train_dataloader = dict(batch_size=2, num_workers=2, '
        'persistent_workers=True, prefetch_factor=2)\n'
        "val_dataloader = dict(num_workers=2, collate_fn=dict(type='own'))\n"
        'test_dataloader = None\noptim_wrapper = dict(clip_grad=None)\n'
        'model = dict(head=dict(num_classes=2))\n')
    return str(file)


def test_options_replace_settings(config):
    cfg = read_config(config, {
        'model.head.num_classes': 3, 'load_from': 'a.pth',
        'optim_wrapper.clip_grad.max_norm': 3.})
    assert cfg.model.head.num_classes == 3
    assert cfg.load_from == 'a.pth'
    assert cfg.optim_wrapper.clip_grad == dict(max_norm=3.)


def test_loaders_get_the_defaults_of_mmpretrain(config):
    cfg = read_config(config)
    assert cfg.train_dataloader.collate_fn.type == 'default_collate'
    assert cfg.val_dataloader.collate_fn.type == 'own'
    assert cfg.val_dataloader.persistent_workers
    assert cfg.test_dataloader is None


def test_no_workers_is_one_setting(config):
    loader = read_config(
        config, {'train_dataloader.num_workers': 0}).train_dataloader
    settings = {name: loader[name] for name in loader if name != 'collate_fn'}
    torch.utils.data.DataLoader([0], **settings)


@pytest.mark.parametrize('name, option, value, words', [
    (PRETRAIN, 'modle.neck.depth', 1, "did you mean 'model'"),
    (PRETRAIN, 'custom_imports.imports', 'x', "setting 'custom_imports'"),
    (PRETRAIN, 'env_cfg.cudnn_benchmrk', True, "mean 'cudnn_benchmark'"),
    (PRETRAIN, 'auto_scale_lr.base_batch', 1, "mean 'base_batch_size'"),
    (PRETRAIN, 'optim_wrapper.paramwise_cfg.norm_decay', 1,
     "mean 'norm_decay_mult'"),
    (PRETRAIN, 'model.neck.depht', 1, "mean 'depth'"),
    (PRETRAIN, 'train_dataloader.num_worker', 1, "mean 'num_workers'"),
    (RETINA, 'train_dataloader.dataset.filter_cfg.minsize', 1, 'min_size'),
    (DETR, 'model.bbox_head.loss_bbox.loss_weigth', 1, "mean 'loss_weight'"),
    (PRETRAIN, 'train_dataloader.batch_size', 'two', 'batch_size=two'),
    (PRETRAIN, 'model', 3, 'model=3'),
    (PRETRAIN, 'train_dataloader.dataset.data_root', 20241103, 'write ./'),
    (PRETRAIN, 'train_cfg.max_epochs', 0, 'max_epochs=0 must be'),
    (PRETRAIN, 'optim_wrapper.clip_grad.max_norm', -1, 'max_norm=-1 must'),
    (PRETRAIN, 'default_hooks.checkpoint.interval', 0, 'interval=0 must'),
    (PRETRAIN, 'model.data_preprocessor.std', [1, -1, 1], 'std='),
    (PRETRAIN, 'auto_scale_lr.enable', 'no', 'enable=no'),
    (PRETRAIN, 'model.head.norm_pix', 'flase', 'norm_pix=flase'),
    (RETINA, 'model.test_cfg.score_thr', 2., 'score_thr=2.0 must be')])
def test_options_that_do_not_fit(name, option, value, words):
    with pytest.raises(UserError) as error:
        read_shipped(name, {option: value})
    assert words in str(error.value) and '\n' not in str(error.value)


@pytest.mark.parametrize('name, option, value', [
    (PRETRAIN, 'model.backbone.drop_path_rate', 0.1),
    (PRETRAIN, 'auto_scale_lr.enable', True),
    (OWN, 'train_dataloader.dataset.pipeline.0.ignore_empty', 'damage'),
    (PRETRAIN, 'model.backbone.init_cfg.checkpoint', 'a.pth'),
    (PRETRAIN, 'default_hooks.analysis.type', 'AnalysisHook'),
    (PRETRAIN, 'default_hooks.checkpoint.save_best', 'auto'),
    (PRETRAIN, 'optim_wrapper.accumulative_counts', 2),
    (PRETRAIN, 'optim_wrapper.paramwise_cfg.custom_keys.former',
     dict(lr_mult=0.1)),
    (PRETRAIN, 'train_dataloader.dataset.pipeline.0.scale', (64, 64)),
    (PRETRAIN, 'param_scheduler', []),
    (RETINA, 'optim_wrapper.paramwise_cfg.norm_decay_mult', 0.),
    (RETINA, 'param_scheduler.0.convert_to_iter_based', True),
    (RETINA, 'model.backbone.norm_eval', True),
    (DETR, 'train_dataloader.sampler.seed', 1),
    (RETINA, 'val_evaluator.classwise', True),
    (RETINA, 'model.backbone.init_cfg', None)])
def test_options_that_fit(name, option, value):
    cfg = read_shipped(name, {option: value})
    for part in option.split('.'):
        cfg = cfg[int(part) if part.isdigit() else part]
    assert cfg == value


def test_values_of_the_config_are_checked(tmp_path):
    file = tmp_path / 'a.py'
    for setting, words in (('base_batch=1', 'base_batch_size'),
                           ("enable='flase'", "'flase' must be True")):
        file.write_text(f'auto_scale_lr = dict({setting})\n')
        with pytest.raises(UserError, match=words):
            read_config(str(file))


def test_a_pipe_is_no_config(tmp_path):
    os.mkfifo(tmp_path / 'a.py')
    with pytest.raises(UserError, match=r'a\.py'):
        read_config(str(tmp_path / 'a.py'))


def test_files_are_required(tmp_path):
    for path in (tmp_path, tmp_path / 'a.pth'):
        with pytest.raises(UserError, match=f"'{path}' .--resume. is not a"):
            require_file(str(path), '--resume')
    require_file('https://host/a.pth', '--resume')
