# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Names that nothing reads are told; of those that are read, none is."""
import copy
import random
from pathlib import Path

import mmdet
import mmpretrain
import pytest
from mmengine.config import Config

from qbheat_mm.cli.setting_names import find_unread
from qbheat_mm.cli.settings import check_settings, read_config
from qbheat_mm.errors import UserError

from .shipped import NAMES, ROOT, load

PRETRAIN = 'qbheat/qbheat_mf-285m_8xb128-amp-coslr-100e_in1k.py'
TUNE = 'qbheat/benchmarks/mf-1.0g_8xb64-ft-tran1-coslr-150e_in1k.py'
RETINA = 'qbheat/coco/retinanet_mf-285m_fpn_frozen_8xb2-1x_coco.py'
DETR = 'qbheat/coco/mf-dec-522_mf-285m_ft_8xb2-200e_coco.py'
MOCO = 'mocov2/mocov2_mf-285m_8xb32-coslr-200e_in1k.py'
FAMILIES = (PRETRAIN, TUNE, RETINA, DETR, MOCO)

SECTIONS = ('model', 'train_dataloader', 'val_dataloader', 'train_cfg',
            'val_cfg', 'optim_wrapper', 'param_scheduler', 'default_hooks',
            'env_cfg', 'auto_scale_lr', 'log_processor', 'randomness',
            'val_evaluator')
# Their names are the user's own, or are checked when they are read.
FREE = ('metainfo', 'custom_keys', 'hparams', 'arch', 'default_hooks')


@pytest.mark.parametrize('name', NAMES)
def test_shipped_configurations_pass(name):
    check_settings(load(name), name, {})


@pytest.mark.parametrize('package, pattern', [
    (mmdet, 'retinanet/*.py'), (mmdet, 'detr/*.py'), (mmdet, 'dino/*.py'),
    (mmdet, 'faster_rcnn/*.py'), (mmdet, 'mask_rcnn/*.py'),
    (mmdet, 'yolox/*.py'), (mmpretrain, 'mae/*.py'),
    (mmpretrain, 'resnet/*.py'), (mmpretrain, 'vision_transformer/*.py'),
    (mmpretrain, 'convnext/*.py'), (mmpretrain, 'mocov3/**/*.py')])
def test_configurations_of_the_toolboxes_pass(package, pattern):
    folder = Path(package.__file__).parent / '.mim' / 'configs'
    files = sorted(folder.glob(pattern))
    for file in random.Random(0).sample(files, min(len(files), 4)):
        cfg = Config.fromfile(file)
        assert [str(name) for name in find_unread(cfg) if name.sure] == []


@pytest.mark.parametrize('name, setting, near', [
    (PRETRAIN, 'env_cfg.cudnn_benchmrk', 'cudnn_benchmark'),
    (PRETRAIN, 'env_cfg.mp_cfg.mp_start_methd', 'mp_start_method'),
    (PRETRAIN, 'auto_scale_lr.base_batch', 'base_batch_size'),
    (PRETRAIN, 'optim_wrapper.optimizer.lrr', 'lr'),
    (PRETRAIN, 'optim_wrapper.optimzer.lr', 'optimizer'),
    (PRETRAIN, 'optim_wrapper.clip_grad.maxnorm', 'max_norm'),
    (PRETRAIN, 'optim_wrapper.paramwise_cfg.norm_decay', 'norm_decay_mult'),
    (PRETRAIN, 'optim_wrapper.accumulative_count', 'accumulative_counts'),
    (PRETRAIN, 'train_dataloader.dataset.pipelin', 'pipeline'),
    (PRETRAIN, 'train_dataloader.num_worker', 'num_workers'),
    (PRETRAIN, 'train_dataloader.sampler.shufle', 'shuffle'),
    (PRETRAIN, 'train_dataloader.dataset.pipeline.1.scales', 'scale'),
    (PRETRAIN, 'model.neck.depht', 'depth'),
    (PRETRAIN, 'model.backbone.drop_path', 'drop_path_rate'),
    (PRETRAIN, 'model.num_model', 'num_models'),
    (PRETRAIN, 'model.data_preprocessor.meen', 'mean'),
    (PRETRAIN, 'default_hooks.checkpoint.intervall', 'interval'),
    (PRETRAIN, 'default_hooks.logger.intervals', 'interval'),
    (PRETRAIN, 'randomness.sed', 'seed'),
    (PRETRAIN, 'train_cfg.max_epoch', 'max_epochs'),
    (PRETRAIN, 'log_processor.windowsize', 'window_size'),
    (PRETRAIN, 'param_scheduler.0.start_facter', 'start_factor'),
    (TUNE, 'model.train_cfg.augment', 'augments'),
    (TUNE, 'model.head.loss.label_smooth', 'label_smooth_val'),
    (TUNE, 'optim_wrapper.paramwise_cfg.layer_decay', 'layer_decay_rate'),
    (TUNE, 'val_evaluator.top', 'topk'),
    (RETINA, 'model.test_cfg.scorethr', 'score_thr'),
    (RETINA, 'model.test_cfg.rcnn', ''),
    (RETINA, 'model.test_cfg.nms.iou_thresh', 'iou_threshold'),
    (RETINA, 'model.train_cfg.assigner.pos_iou_th', 'pos_iou_thr'),
    (RETINA, 'model.bbox_head.anchor_generator.ratio_', 'ratios'),
    (RETINA, 'train_dataloader.dataset.filter_cfg.minsize', 'min_size'),
    (RETINA, 'train_dataloader.dataset.data_prefix.imgs', 'img'),
    (RETINA, 'val_evaluator.metrc', 'metric'),
    (DETR, 'model.num_querys', 'num_queries'),
    (DETR, 'model.bbox_head.loss_bbox.loss_weigth', 'loss_weight'),
    (MOCO, 'model.head.temprature', 'temperature'),
])
def test_a_misspelt_name_is_told_with_the_right_one(name, setting, near):
    with pytest.raises(UserError) as error:
        read_config(str(ROOT / name), {setting: 1})
    line = str(error.value)
    assert '\n' not in line
    assert setting in line or setting.rpartition('.')[0] in line
    assert near in line.split('did you mean')[-1]


@pytest.mark.parametrize('name, setting, wrong', [
    (PRETRAIN, 'optim_wrapper.optimizer.type', 'AdamWW'),
    (PRETRAIN, 'model.type', 'QBHeatt'),
    (PRETRAIN, 'model.neck.type', 'QBHeatDecodr'),
    (PRETRAIN, 'train_dataloader.dataset.type', 'ImageNett'),
    (PRETRAIN, 'train_dataloader.dataset.pipeline.1.type', 'RandomResizeCrop'),
    (PRETRAIN, 'train_dataloader.sampler.type', 'DefaultSamplr'),
    (PRETRAIN, 'param_scheduler.0.type', 'LinearLr'),
    (PRETRAIN, 'default_hooks.checkpoint.type', 'CheckpointHok'),
    (PRETRAIN, 'train_cfg.type', 'EpochLoop'),
    (PRETRAIN, 'optim_wrapper.type', 'AmpOptimWraper'),
    (RETINA, 'val_evaluator.type', 'CocoMetrc'),
    (RETINA, 'visualizer.type', 'DetLocalVisualiser')])
def test_a_misspelt_type_is_told(name, setting, wrong):
    with pytest.raises(UserError) as error:
        read_config(str(ROOT / name), {setting: wrong})
    assert f'{setting}: {wrong} is not in the' in str(error.value)


def leaves(value, path=''):
    """Paths of all settings that are no dict and no list of dicts."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from leaves(part, f'{path}.{name}')
    elif isinstance(value, list) and any(
            isinstance(part, dict) for part in value):
        for i, part in enumerate(value):
            yield from leaves(part, f'{path}.{i}')
    else:
        yield path[1:]


def misspelt(name, pick):
    """A name with a letter dropped, doubled or added."""
    place = pick.randrange(1, len(name)) if len(name) > 1 else 1
    return pick.choice([name[:place] + name[place + 1:] + 'q',
                        name[:place] + name[place - 1:], f'{name}_x'])


@pytest.mark.parametrize('name', FAMILIES)
def test_every_name_of_a_recipe_may_be_misspelt(name):
    cfg = load(name)
    pick = random.Random(0)
    settings = [
        path for path in leaves(cfg._cfg_dict)
        if path.split('.')[0] in SECTIONS and path.count('.')
        and not any(part in FREE for part in path.split('.')[:-1])
        and path.split('.')[-1] != 'type' and not path[-1].isdigit()]
    assert len(settings) > 30
    for setting in pick.sample(settings, 30):
        path, _, last = setting.rpartition('.')
        wrong = copy.deepcopy(cfg)
        place = wrong
        for part in path.split('.'):
            place = place[int(part) if part.isdigit() else part]
        place[misspelt(last, pick)] = place.pop(last)
        found = [str(one) for one in find_unread(wrong)]
        assert any(one.startswith(path) for one in found), setting


def test_the_check_can_be_skipped(monkeypatch):
    monkeypatch.setenv('QBHEAT_UNCHECKED_SETTINGS', '1')
    cfg = read_config(str(ROOT / PRETRAIN), {'env_cfg.cudnn_benchmrk': 1})
    assert cfg.env_cfg.cudnn_benchmrk == 1
