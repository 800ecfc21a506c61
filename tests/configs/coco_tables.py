# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Tables of values that the detectors share, each with its source."""
from .recipe import under
from .sources import RUNS, STATISTICS, TRAIN, VAL

# COCO 2017 as in mmdet: mmdet::_base_/datasets/coco_detection.py. Our data
# set is mmdet's, but refuses annotation files of other classes.
COCO = {
    **under('train_dataloader', {
        'sampler.type': 'DefaultSampler', 'sampler.shuffle': True,
        'batch_sampler.type': 'AspectRatioBatchSampler'}, batch_size=2),
    **under('train_dataloader.dataset', {
        'data_prefix.img': 'train2017/',
        'filter_cfg.filter_empty_gt': True, 'filter_cfg.min_size': 32},
        type='MatchedCocoDataset', data_root='data/coco/',
        ann_file='annotations/instances_train2017.json'),
    **under('val_dataloader', {
        'sampler.type': 'DefaultSampler', 'sampler.shuffle': False},
        batch_size=1, drop_last=False),
    **under('val_dataloader.dataset', {'data_prefix.img': 'val2017/'},
            type='MatchedCocoDataset', data_root='data/coco/',
            ann_file='annotations/instances_val2017.json', test_mode=True),
    f'{TRAIN}.RandomFlip.prob': 0.5,
    f'{TRAIN}.LoadAnnotations.with_bbox': True,
    # Tables of results: "the image size 800x1333"
    f'{VAL}.Resize.scale': [1333, 800], f'{VAL}.Resize.keep_ratio': True,
    f'{VAL}.PackDetInputs.meta_keys': [
        'img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor'],
    **under('val_evaluator', type='MatchedCocoMetric', metric='bbox',
            ann_file='data/coco/annotations/instances_val2017.json',
            format_only=False, classwise=None),
    'test_dataloader': 'val_dataloader', 'test_evaluator': 'val_evaluator',
    **under('model.data_preprocessor', STATISTICS, bgr_to_rgb=True,
            type='DetDataPreprocessor'),
    'model.backbone.type': 'MobileFormer', 'model.bbox_head.num_classes': 80,
    # 8 GPUs with 2 images each (appendix "Object Detection in COCO")
    'auto_scale_lr.base_batch_size': 16, 'auto_scale_lr.enable': False,
    'optim_wrapper.type': 'OptimWrapper',
    'train_cfg.type': 'EpochBasedTrainLoop', 'val_cfg.type': 'ValLoop',
    'test_cfg.type': 'TestLoop',
    **RUNS, 'default_hooks.checkpoint.save_best': 'coco/bbox_mAP',
    'custom_hooks': None,
}
# mmdet's own, which also compare the classes
MATCHED = ('train_dataloader.dataset.type', 'val_dataloader.dataset.type',
           'val_evaluator.type')
# Our loader, by the name that mmdet's inferencer looks for
LOADERS = {f'{TRAIN}.LoadImageFromFile._scope_': 'qbheat_mm',
           f'{VAL}.LoadImageFromFile._scope_': 'qbheat_mm'}
COCO |= LOADERS
# docs/own_data.md: a folder of one's own, every image an example
OWN_DATA = {
    **COCO,
    **under('train_dataloader.dataset', {
        'data_prefix.img': 'images/', 'metainfo.classes': ['first', 'second'],
        'filter_cfg.filter_empty_gt': False, 'filter_cfg.min_size': 1},
        data_root='data/own/', ann_file='annotations/train.json'),
    **under('val_dataloader.dataset', {
        'data_prefix.img': 'images/',
        'metainfo.classes': ['first', 'second']},
        data_root='data/own/', ann_file='annotations/val.json'),
    'train_dataloader.batch_size': 16,
    'val_evaluator.ann_file': 'data/own/annotations/val.json',
    'val_evaluator.classwise': True, 'model.bbox_head.num_classes': 2,
}
FROZEN = under('model.backbone', {
    'init_cfg.type': 'PretrainedEncoder', 'init_cfg.checkpoint': None},
    out_indices=[2, 4], frozen_stages=5, norm_eval=None, drop_path_rate=None)
