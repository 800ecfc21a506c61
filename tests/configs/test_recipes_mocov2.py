# Copyright (c) QB-Heat MM authors. All rights reserved.
"""MoCo-v2, against its own recipe: Chen et al. 2020 and MoCo's code."""
import pytest

from .built import build
from .recipe import departures, differences, under
from .shipped import find
from .sources import (
    ENCODERS,
    IMAGENET_TRAIN,
    KEEPING,
    POOLED,
    RUNS,
    STATISTICS,
    TRAIN,
)

THEIRS = 'mmpretrain::mocov2/mocov2_resnet50_8xb32-coslr-200e_in1k.py'
VIEW = f'{TRAIN}.MultiView.transforms.0'
JITTER = f'{VIEW}.RandomApply.transforms'

MOCO = {
    'model.type': 'MoCo',
    # He et al., section 3.3, and MoCo's main_moco.py: K, m, dimension
    'model.queue_len': 65536, 'model.feat_dim': 128,
    'model.momentum': 0.001,  # theirs is 1 - 0.001
    # MoCo-v2: --moco-t 0.2 --mlp --aug-plus --cos
    'model.head.type': 'ContrastiveHead', 'model.head.temperature': 0.2,
    'model.head.loss.type': 'CrossEntropyLoss',
    'model.neck.MoCoV2Neck.out_channels': 128,
    'model.neck.MoCoV2Neck.with_avg_pool': False,  # PoolWithToken's task
    # lr 0.03 at batch 256, 200 epochs, cosine
    **under('data_preprocessor', STATISTICS, to_rgb=True,
            type='SelfSupDataPreprocessor'),
    'model.data_preprocessor': None,
    **under('optim_wrapper.optimizer', type='SGD', lr=0.03, momentum=0.9,
            weight_decay=1e-4),
    'optim_wrapper.type': 'OptimWrapper', 'optim_wrapper.clip_grad': None,
    'train_dataloader.batch_size': 256 // 8,
    'auto_scale_lr.base_batch_size': 256,
    'train_cfg.max_epochs': 200, 'param_scheduler': 'CosineAnnealingLR',
    **under('param_scheduler.CosineAnnealingLR', T_max=200, by_epoch=True,
            begin=0, end=200),
    # --aug-plus: crop, jitter of 80 %, grey of 20 %, blur of 50 %, flip
    f'{TRAIN}.MultiView.num_views': 2,
    VIEW: 'RandomResizedCrop > RandomApply > RandomGrayscale > GaussianBlur '
          '> RandomFlip',
    **under(VIEW, {
        'RandomResizedCrop.scale': 224,
        'RandomResizedCrop.crop_ratio_range': [0.2, 1.],
        'RandomResizedCrop._scope_': 'qbheat_mm',
        'RandomResizedCrop.interpolation': 'bilinear',
        'RandomApply.prob': 0.8,
        'RandomGrayscale.prob': 0.2, 'RandomGrayscale.keep_channels': True,
        'RandomGrayscale.channel_weights': [0.114, 0.587, 0.2989],  # BGR
        'GaussianBlur.magnitude_range': [0.1, 2.0],
        'GaussianBlur.magnitude_std': 'inf', 'GaussianBlur.prob': 0.5,
        'RandomFlip.prob': 0.5}),
    JITTER: 'NumpyToPIL > torchvision/ColorJitter > PILToNumpy',
    f'{JITTER}.NumpyToPIL.to_rgb': True, f'{JITTER}.PILToNumpy.to_bgr': True,
    **under(f'{JITTER}.torchvision/ColorJitter', brightness=0.4,
            contrast=0.4, saturation=0.4, hue=0.1),
}
NAMES = {f'mocov2/mocov2_mf-{e}_8xb32-coslr-200e_in1k.py': e
         for e in ENCODERS}
every = pytest.mark.parametrize('name', NAMES)
#: One's own images on one GPU, of which a shorter queue holds no two.
OWN = 'mocov2/mocov2_mf-285m_1xb256-coslr-200e_own-images.py'


def table(encoder):
    width = POOLED[encoder]
    return {
        **IMAGENET_TRAIN, **RUNS, **MOCO,
        **under('model.backbone', type='MobileFormer', arch=f'mf-{encoder}',
                out_indices=[4, 5], frozen_stages=None, init_cfg=None),
        # the pooled pixels with the token, as `lin` probes them
        'model.neck': 'PoolWithToken > MoCoV2Neck',
        'model.neck.MoCoV2Neck.in_channels': width,
        'model.neck.MoCoV2Neck.hid_channels': width}


@every
def test_values_that_a_source_names(name):
    assert not differences(name, table(NAMES[name]))


def test_ones_own_images_have_the_same_recipe():
    assert not differences(OWN, {
        **table('285m'), 'model.queue_len': 4096,
        'train_dataloader.batch_size': 256,
        **under('train_dataloader.dataset', type='NamedImageFolder',
                split=None, with_label=False),
        f'{TRAIN}.LoadImageFromFile.ignore_empty': None})


@every
def test_all_else_is_mmpretrains_recipe(name):
    """But for network, jitter (torchvision's), and how runs are kept."""
    for path in departures(name, THEIRS):
        assert path.startswith((
            'model.backbone.', 'model.neck', 'train_dataloader.dataset.type',
            TRAIN, *KEEPING)), path
        if path.startswith(f'{TRAIN}.'):
            assert path.startswith((
                f'{TRAIN}.Load', f'{VIEW}.RandomResizedCrop', JITTER)), path


def test_the_parts_are_built_of_these_values():
    model = build(next(iter(NAMES)))
    assert model.queue.shape == (128, 65536)
    assert model.encoder_k.momentum == pytest.approx(0.001)
    assert model.head.temperature == 0.2


def test_every_moco_has_a_table():
    assert set(find('mocov2/')) == {*NAMES, OWN}
