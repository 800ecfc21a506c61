# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Detectors of mmdet on the frozen encoder, against mmdet's own recipes."""
import pytest

from .built import build, groups_of, learning_rates, wrapper_of
from .coco_tables import COCO, FROZEN, LOADERS, MATCHED, OWN_DATA
from .recipe import assert_tables, departures, differences, under
from .shipped import find, load
from .sources import EIGHTH, ENCODERS, KEEPING, LAST, TRAIN, VAL

RETINANETS = 'mmdet::retinanet/retinanet_r50_fpn_1x_coco.py'
FASTERS = 'mmdet::faster_rcnn/faster-rcnn_r50_fpn_1x_coco.py'
MASKS = 'mmdet::mask_rcnn/mask-rcnn_r50_fpn_1x_coco.py'
FCOSES = ('mmdet::fcos/fcos_r50-caffe_fpn_gn-head-center-normbbox-centeronreg'
          '-giou_1x_coco.py')
DINOS = 'mmdet::dino/dino-4scale_r50_8xb2-12e_coco.py'
PANOPTICS = 'mmdet::panoptic_fpn/panoptic-fpn_r50_fpn_1x_coco.py'
STEP = 'param_scheduler.MultiStepLR'
RATIOS, LEVELS = [0.5, 1.0, 2.0], [8, 16, 32, 64, 128]
CODER = dict(type='DeltaXYWHBBoxCoder', target_means=[0.] * 4,
             target_stds=[1.] * 4)

# mmdet's 1x and 2x schedules
SCHEDULE = {
    **under('optim_wrapper.optimizer', type='SGD', momentum=0.9,
            weight_decay=1e-4),
    'optim_wrapper.clip_grad': None, 'optim_wrapper.paramwise_cfg': None,
    'param_scheduler': 'LinearLR > MultiStepLR', 'train_cfg.val_interval': 1,
    **under('param_scheduler.LinearLR', start_factor=0.001, by_epoch=False,
            begin=0, end=500),
    **under(STEP, begin=0, by_epoch=True, gamma=0.1),
}
ONCE = {'train_cfg.max_epochs': 12, f'{STEP}.end': 12,
        f'{STEP}.milestones': [8, 11]}
TWICE = {'train_cfg.max_epochs': 24, f'{STEP}.end': 24,
         f'{STEP}.milestones': [16, 22]}
DATA = {**COCO, f'{TRAIN}.Resize.scale': [1333, 800],
        f'{TRAIN}.Resize.keep_ratio': True,
        'model.data_preprocessor.pad_size_divisor': 32}
FPN = {'model.neck.type': 'FPN', 'model.neck.out_channels': 256,
       'model.neck.num_outs': 5}

RETINANET = {
    **DATA, **FROZEN, **SCHEDULE, **FPN,
    'optim_wrapper.optimizer.lr': 0.01, 'model.type': 'RetinaNet',
    # 1/8 and 1/16 are all that there is: from the first of them on.
    'model.neck.start_level': 0, 'model.neck.add_extra_convs': 'on_input',
    **under('model.bbox_head', type='RetinaHead', in_channels=256,
            stacked_convs=4, feat_channels=256),
    **under('model.bbox_head.anchor_generator', type='AnchorGenerator',
            octave_base_scale=4, scales_per_octave=3, ratios=RATIOS,
            strides=LEVELS),
    **under('model.bbox_head.bbox_coder', CODER),
    **under('model.bbox_head.loss_cls', type='FocalLoss', use_sigmoid=True,
            gamma=2.0, alpha=0.25, loss_weight=1.0),
    **under('model.bbox_head.loss_bbox', type='L1Loss', loss_weight=1.0),
    **under('model.train_cfg.assigner', type='MaxIoUAssigner',
            pos_iou_thr=0.5, neg_iou_thr=0.4, min_pos_iou=0,
            ignore_iof_thr=-1),
    **under('model.train_cfg', {'sampler.type': 'PseudoSampler'},
            allowed_border=-1, pos_weight=-1, debug=False),
    **under('model.test_cfg', {'nms.type': 'nms', 'nms.iou_threshold': 0.5},
            nms_pre=1000, min_bbox_size=0, score_thr=0.05, max_per_img=100),
}
FASTER = {
    **DATA, **FROZEN, **SCHEDULE, **ONCE, **FPN,
    'optim_wrapper.optimizer.lr': 0.02, 'model.type': 'FasterRCNN',
    'model.bbox_head.num_classes': None, 'model.backbone.arch': 'mf-285m',
    'model.neck.in_channels': [48, 720],
    # For the same sizes in pixels from a finest level of 1/8 instead of 1/4:
    # twice the strides, half the scale, RoIs of 224 on the finest level.
    **under('model.rpn_head.anchor_generator', scales=[4], ratios=RATIOS,
            strides=LEVELS),
    **under('model.roi_head.bbox_roi_extractor', {
        'roi_layer.type': 'RoIAlign', 'roi_layer.output_size': 7,
        'roi_layer.sampling_ratio': 0}, out_channels=256,
        featmap_strides=[8, 16, 32, 64], finest_scale=112),
    'model.roi_head.bbox_head.num_classes': 80,
}

# Masks profit from a finest level of 1/4, and the strides are mmdet's then.
MASK_FPN = {**FPN, 'model.neck.in_channels': [28, 48, 720],
            'model.backbone.out_indices': [1, 2, 4],
            'model.backbone.arch': 'mf-285m'}
HEADS = {'model.bbox_head.num_classes': None,
         'model.roi_head.bbox_head.num_classes': 80,
         'model.roi_head.mask_head.num_classes': 80}
MASK_DATA = {'val_evaluator.metric': ['bbox', 'segm'],
             f'{TRAIN}.LoadAnnotations.with_mask': True,
             f'{VAL}.LoadAnnotations.with_mask': True}
MASK = {
    **DATA, **FROZEN, **SCHEDULE, **ONCE, **MASK_FPN, **HEADS, **MASK_DATA,
    'optim_wrapper.optimizer.lr': 0.02, 'model.type': 'MaskRCNN',
    **under('model.rpn_head.anchor_generator', scales=[8], ratios=RATIOS,
            strides=[4, 8, 16, 32, 64]),
    **under('model.roi_head', {
        'bbox_roi_extractor.featmap_strides': [4, 8, 16, 32],
        'mask_roi_extractor.featmap_strides': [4, 8, 16, 32]}),
}
OWN_MASK = {
    **MASK, **TWICE, **OWN_DATA, **MASK_DATA,
    'model.bbox_head.num_classes': None,
    'model.roi_head.bbox_head.num_classes': 2,
    'model.roi_head.mask_head.num_classes': 2,
}
FCOS = {
    **DATA, **FROZEN, **SCHEDULE, **ONCE, **FPN,
    **under('param_scheduler.LinearLR', start_factor=1 / 3),
    'optim_wrapper.optimizer.lr': 0.01, 'model.type': 'FCOS',
    'optim_wrapper.paramwise_cfg': None,  # a dict: its values follow
    **under('optim_wrapper.paramwise_cfg', bias_lr_mult=2.,
            bias_decay_mult=0.),
    'model.backbone.arch': 'mf-285m', 'model.neck.in_channels': [48, 720],
    'model.neck.start_level': 0, 'model.bbox_head.strides': LEVELS,
}
# DETR's augmentation keeps images without objects.
DINO = {
    **COCO, **FROZEN, 'model.type': 'DINO', 'model.num_queries': 900,
    f'{TRAIN}.Resize.scale': None,
    'train_dataloader.dataset.filter_cfg.filter_empty_gt': False,
    'model.backbone.arch': 'mf-285m', 'model.neck.in_channels': [48, 720],
    'model.neck.num_outs': 4, 'train_cfg.max_epochs': 12,
    'train_cfg.val_interval': 1, 'optim_wrapper.clip_grad.max_norm': 0.1,
    **under('optim_wrapper.optimizer', type='AdamW', lr=1e-4,
            weight_decay=1e-4),
    'param_scheduler': 'MultiStepLR', f'{STEP}.milestones': [11],
}
PANOPTIC = {
    **FROZEN, **SCHEDULE, **ONCE, **MASK_FPN, **HEADS,
    'optim_wrapper.optimizer.lr': 0.02, 'model.type': 'PanopticFPN',
    'default_hooks.checkpoint.save_best': 'coco_panoptic/PQ',
    'default_hooks.checkpoint.rule': 'greater',
    'model.semantic_head.num_stuff_classes': 53,
}
OF_MMDET = {
    'mask-rcnn_mf-285m_fpn_frozen_8xb2-1x_coco': MASK,
    'mask-rcnn_mf-285m_own-data': OWN_MASK,
    'fcos_mf-285m_fpn_frozen_8xb2-1x_coco': FCOS,
    'dino_mf-285m_4scale_frozen_8xb2-12e_coco': DINO,
    'panoptic-fpn_mf-285m_fpn_frozen_8xb2-1x_coco': PANOPTIC,
}


def recipes():
    """Names of the configurations and what the tables say of each."""
    for e in ENCODERS:
        yield f'qbheat/coco/retinanet_mf-{e}_fpn_frozen_8xb2-1x_coco.py', {
            **RETINANET, **ONCE, 'model.backbone.arch': f'mf-{e}',
            'model.neck.in_channels': [EIGHTH[e], LAST[e]]}
    yield 'qbheat/coco/retinanet_mf-285m_own-data.py', {
        **RETINANET, **TWICE, **OWN_DATA, 'model.backbone.arch': 'mf-285m',
        'model.neck.in_channels': [48, 720]}
    yield ('qbheat/coco/faster-rcnn_mf-285m_fpn_frozen_8xb2-1x_coco.py',
           FASTER)
    for name, table in OF_MMDET.items():
        yield f'qbheat/coco/{name}.py', table


RECIPES = dict(recipes())
every = pytest.mark.parametrize('name', RECIPES)
# Of mmdet's 1x and 2x schedules, and of anchors.
with_anchors = pytest.mark.parametrize('name', [
    name for name in RECIPES if 'dino' not in name and 'fcos' not in name])


@every
def test_values_that_a_source_names(name):
    assert not differences(name, RECIPES[name])


def test_every_detector_of_mmdet_has_a_table():
    assert_tables([name for name in find('qbheat/coco/')
                   if '/mf-dec-' not in name], RECIPES)


@pytest.mark.parametrize('name, theirs, changes', [
    *((name, RETINANETS, ['model.neck.in_channels', 'model.neck.start_level'])
      for name in find('retinanet', '1x')),
    (*find('faster-rcnn'), FASTERS, [
        'model.neck.in_channels', 'model.rpn_head.anchor_generator.scales',
        'model.rpn_head.anchor_generator.strides',
        'model.roi_head.bbox_roi_extractor.featmap_strides',
        'model.roi_head.bbox_roi_extractor.finest_scale']),
    (*find('mask-rcnn', '1x'), MASKS, ['model.neck.in_channels']),
    (*find('fcos'), FCOSES, [
        # ImageNet's statistics in RGB instead of those of Caffe's weights
        'model.data_preprocessor.mean', 'model.data_preprocessor.std',
        'model.data_preprocessor.bgr_to_rgb',
        'model.neck.in_channels', 'model.neck.start_level']),
    (*find('dino'), DINOS, [
        'model.neck.in_channels',
        # The longer side is 1333 before the crop, too, as DETR has it.
        f'{TRAIN}.RandomChoice.transforms.1.RandomChoiceResize.scales',
        'auto_scale_lr.enable',
        # The encoder does not train.
        'optim_wrapper.paramwise_cfg.custom_keys.backbone.lr_mult']),
    (*find('panoptic'), PANOPTICS, ['model.neck.in_channels',
                                    'custom_hooks'])])
def test_all_else_is_mmdets_recipe(name, theirs, changes):
    """But for the network and how runs are kept."""
    ours = ('model.backbone.', 'tta_', *KEEPING, *MATCHED, *LOADERS)
    assert set(changes) == {path for path in departures(name, theirs)
                            if not path.startswith(ours)}


@with_anchors
def test_learning_rate_over_the_run(name, tmp_path):
    table, iterations = RECIPES[name], 100
    top = table['optim_wrapper.optimizer.lr']
    rates = learning_rates(load(name), tmp_path, iterations)
    assert rates[0] == pytest.approx(top / 1000)
    assert rates[250] == pytest.approx(top / 2, rel=0.01)
    first, second = table[f'{STEP}.milestones']
    for epoch, rate in ((6, top), (first - 1, top), (first, top / 10),
                        (second - 1, top / 10), (second, top / 100)):
        assert rates[(epoch + 1) * iterations - 1] == pytest.approx(rate)


@with_anchors
def test_one_rate_and_no_clipping(name):
    table = RECIPES[name]
    assert not wrapper_of(name).clip_grad_kwargs
    groups = groups_of(name)
    assert not any(param.startswith('backbone.') for param in groups)
    for group in groups.values():
        assert group['lr'] == table['optim_wrapper.optimizer.lr']
        assert (group['weight_decay'], group['momentum']) == (1e-4, 0.9)


@with_anchors
def test_anchors_are_of_the_sizes_of_the_original(name):
    """32 to 512 pixels; RetinaNet's three octaves of each."""
    model = build(name)
    two_stages = hasattr(model, 'rpn_head')
    head = model.rpn_head if two_stages else model.bbox_head
    sides = [anchors[:, 2:] - anchors[:, :2]
             for anchors in head.prior_generator.base_anchors]
    octaves = [1] if two_stages else [1, 2**(1 / 3), 2**(2 / 3)]
    for level, size in zip(sides, (32, 64, 128, 256, 512)):
        wanted = sorted((size * octave)**2 for octave in octaves) * 1
        found = sorted({round(area, 1) for area in level.prod(1).tolist()})
        assert found == pytest.approx(wanted, rel=1e-3)
        ratios = {round(r, 3) for r in (level[:, 1] / level[:, 0]).tolist()}
        assert ratios == {0.5, 1.0, 2.0}
