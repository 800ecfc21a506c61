# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Class folders are counted, and the same in all data sets."""
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import RUNNERS

from qbheat_mm.errors import UserError

from ..helpers.models import NARROW
from ..helpers.shipped import write_classes

CONFIGS = Path(__file__).parents[2] / 'configs/qbheat/benchmarks'


@pytest.fixture
def build(tmp_path):
    """Build a runner of the shipped probe, with a tiny random encoder."""

    def build(train, val, **changes):
        for split, classes in (('train', train), ('val', val)):
            if classes:
                write_classes(tmp_path / 'own' / split, classes)
        cfg = Config.fromfile(
            CONFIGS / 'mf-285m_1xb256-tran1-coslr-200e_own-folders.py')
        for part in ('train', 'val', 'test'):
            loader = cfg[f'{part}_dataloader']
            loader.update(num_workers=0, persistent_workers=False)
            loader.dataset.data_root = str(tmp_path / 'own')
            for step in loader.dataset.pipeline:
                if 'Crop' in step.type or step.type == 'ResizeEdge':
                    step['crop_size' if step.type == 'CenterCrop'
                         else 'scale'] = 32
        cfg.model.backbone.update(arch=NARROW, init_cfg=None)
        cfg.model.neck.update(in_channels=16, token_dims=8, embed_dims=12,
                              num_heads=2)
        cfg.model.head.in_channels = 12
        cfg.train_cfg.max_epochs = 1
        cfg.work_dir = str(tmp_path / 'work')
        cfg.merge_from_dict(changes)
        return RUNNERS.build(cfg)

    return build


def test_classes_are_counted_and_learned(build, tmp_path):
    runner = build('abc', 'abc')
    runner.train()
    assert runner.iter == 1
    assert runner.model.head.num_classes == 3
    assert runner.cfg.model.head.num_classes == 3
    assert runner.message_hub.get_scalar('val/accuracy/top1').data
    content = torch.load(tmp_path / 'work/epoch_1.pth', weights_only=False)
    assert tuple(content['meta']['dataset_meta']['classes']) == tuple('abc')


def test_classes_of_wrapped_data_sets_are_counted(build):
    plain = build('abc', 'abc').cfg.train_dataloader.dataset.to_dict()
    wrapped = dict(type='RepeatDataset', times=2, dataset=dict(
        type='ConcatDataset', datasets=[plain, plain]))
    runner = build('', '', **{
        'train_dataloader.dataset': dict(wrapped, _delete_=True)})
    runner.train()
    assert runner.model.head.num_classes == 3


def test_hidden_folders_are_not_classes(build, tmp_path):
    write_classes(tmp_path / 'own/train', ['.ipynb_checkpoints'])
    assert build('ab', 'ab').model.head.num_classes == 2


def test_annotation_files_need_class_names(build, tmp_path):
    """Instead of the folders of their images."""
    write_classes(tmp_path / 'own', 'xyz')
    for part in ('train', 'val'):
        (tmp_path / f'own/{part}.txt').write_text('x/0.png 0\ny/0.png 1\n')
    lists, names = {}, {}
    for part, file in dict(train='train.txt', val='val.txt',
                           test='val.txt').items():
        dataset = f'{part}_dataloader.dataset'
        lists[f'{dataset}.ann_file'] = file
        lists[f'{dataset}.data_prefix'] = ''
        names[f'{dataset}.metainfo.classes'] = ['first', 'other']
    with pytest.raises(UserError, match='metainfo.classes for an annotation'):
        build('', '', **lists)
    lists |= names
    assert build('', '', **lists).model.head.num_classes == 2


def test_a_validation_set_with_other_classes(build):
    with pytest.raises(UserError, match="val_dataloader.dataset .*/own'.*"
                       r"only one of them has \['c', 'd'\]"):
        build('abc', 'abd').train()


def test_a_head_with_another_number_of_classes(build):
    with pytest.raises(UserError, match='num_classes=2, but .*options '
                       'model.head.num_classes=3'):
        build('abc', 'abc', count_classes=False).train()


def test_one_class_is_too_few(build):
    with pytest.raises(UserError, match='has 1 classes, and at least 2'):
        build('a', 'ab')


def test_testing_needs_the_classes_but_not_the_training_set(build, tmp_path):
    build('ab', 'ab').train()
    (tmp_path / 'own/train').rename(tmp_path / 'away')
    load_from = str(tmp_path / 'work/epoch_1.pth')
    assert 'accuracy/top1' in build('', '', load_from=load_from).test()
    write_classes(tmp_path / 'other/val', 'ac')
    runner = build('', '', load_from=load_from, **{
        'test_dataloader.dataset.data_root': str(tmp_path / 'other')})
    with pytest.raises(UserError, match="test_.*/other'.* only one of "
                       r"them has \['b', 'c'\]"):
        runner.test()


def test_a_resumed_run_keeps_its_classes(build, tmp_path):
    build('ab', 'ab', **{'train_cfg.max_epochs': 2}).train()
    checkpoint = str(tmp_path / 'work/epoch_1.pth')
    others = {f'{part}_dataloader.dataset.metainfo': dict(classes=('b', 'a'))
              for part in ('train', 'val', 'test')}
    with pytest.raises(UserError, match='train_.* has 2 classes, the '
                       'checkpoint 2: they are in another order'):
        build('', '', **others, resume=True, load_from=checkpoint,
              **{'train_cfg.max_epochs': 2}).train()


def test_a_new_run_starts_from_classes_in_the_same_order(build, tmp_path,
                                                         capsys):
    """Or from others; else its head begins with swapped classes."""
    build('abc', 'abc').train()
    checkpoint = str(tmp_path / 'work/epoch_1.pth')
    order = {f'{part}_dataloader.dataset.metainfo': dict(
        classes=('b', 'c', 'a')) for part in ('train', 'val', 'test')}
    with pytest.raises(UserError, match=r"order \(\['b', 'c', 'a'\] and "
                       r"\['a', 'b', 'c'\]\)"):
        build('', '', **order, load_from=checkpoint).train()
    build('', '', load_from=checkpoint).train()
    assert 'trained on other classes' not in capsys.readouterr().out
    for part in ('train', 'val'):
        (tmp_path / f'own/{part}/c').rename(tmp_path / f'own/{part}/A')
    build('', '', load_from=checkpoint).train()
    assert 'trained on other classes, a, b, c' in capsys.readouterr().out
