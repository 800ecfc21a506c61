# Copyright (c) QB-Heat MM authors. All rights reserved.
"""MF-Dec on COCO: the paper's appendix, and DETR for what it leaves open."""
import pytest
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from .built import build, groups_of, learning_rates, wrapper_of
from .coco_tables import COCO, FROZEN, LOADERS, MATCHED, OWN_DATA
from .recipe import assert_tables, cited, departures, differences, under
from .shipped import find, load
from .sources import EIGHTH, ENCODERS, KEEPING, LAST, TRAIN

DETRS = 'mmdet::detr/detr_r50_8xb2-150e_coco.py'
STEP = 'param_scheduler.MultiStepLR'

# Appendix "Object Detection in COCO" and Table "Specification of Mobile-Former
# decoders"
PAPER = {
    **under('optim_wrapper.optimizer', type='AdamW', weight_decay=1e-4,
            betas=None),
    'param_scheduler': 'MultiStepLR', f'{STEP}.gamma': 0.1,
    'model.type': 'MobileFormerDETR', 'model.dropout': 0.1,
    'model.num_queries': 100, 'model.bbox_head.embed_dims': 256,
    'model.embed_dims': None,  # the decoder's own, 256: see below
}
# DETR, main.py and datasets/coco.py, as in mmdet's recipe
SIDES = [[side, 1333] for side in range(480, 801, 32)]
CHOICE = f'{TRAIN}.RandomChoice.transforms'
DETR = {
    'model.data_preprocessor.pad_size_divisor': 1,
    'model.bbox_head.type': 'DETRHead',
    **under('model.bbox_head', {  # --eos_coef, --bbox_loss_coef, --giou_...
        'loss_cls.type': 'CrossEntropyLoss', 'loss_cls.bg_cls_weight': 0.1,
        'loss_cls.use_sigmoid': False, 'loss_cls.loss_weight': 1.0,
        'loss_cls.class_weight': 1.0,
        'loss_bbox.type': 'L1Loss', 'loss_bbox.loss_weight': 5.0,
        'loss_iou.type': 'GIoULoss', 'loss_iou.loss_weight': 2.0}),
    'model.train_cfg.assigner.type': 'HungarianAssigner',
    **under('model.train_cfg.assigner.match_costs', {  # --set_cost_...
        'ClassificationCost.weight': 1.0, 'BBoxL1Cost.weight': 5.0,
        'BBoxL1Cost.box_format': 'xywh', 'IoUCost.iou_mode': 'giou',
        'IoUCost.weight': 2.0}),
    'model.test_cfg.max_per_img': 100,
    **under('optim_wrapper.clip_grad', max_norm=0.1, norm_type=2),
    f'{CHOICE}.0': 'RandomChoiceResize',
    f'{CHOICE}.0.RandomChoiceResize.scales': SIDES,
    f'{CHOICE}.0.RandomChoiceResize.keep_ratio': True,
    f'{CHOICE}.1': 'RandomChoiceResize > RandomCrop > RandomChoiceResize',
    **under(f'{CHOICE}.1', {
        'RandomChoiceResize.scales': [[400, 1333], [500, 1333], [600, 1333]],
        'RandomChoiceResize.keep_ratio': True,
        'RandomCrop.crop_type': 'absolute_range',
        'RandomCrop.crop_size': [384, 600],
        'RandomCrop.allow_negative_crop': True,
        'RandomChoiceResize#2.scales': SIDES,
        'RandomChoiceResize#2.keep_ratio': True}),
}
DEPTHS = {'522': [5, 2, 2], '211': [2, 1, 1]}


def schedule(lr, epochs, step, val_interval):
    return {'optim_wrapper.optimizer.lr': lr, 'train_cfg.max_epochs': epochs,
            'train_cfg.val_interval': val_interval,
            **under(STEP, begin=0, end=epochs, by_epoch=True,
                    milestones=[step])}


SHARED = {**COCO, **PAPER, **DETR}
# "500 epochs ... 1e-4 ... drops by a factor of 10 after 400 epochs"
LONG = {**SHARED, **FROZEN, **schedule(1e-4, 500, 400, 10)}
# Ours, a tenth of it; as mmdet's Conditional DETR and DAB-DETR
SHORT = {**SHARED, **FROZEN, **schedule(1e-4, 50, 40, 5)}
# "200 epochs from decoder probing ... 1e-5 which drops to 1e-6 after 150"
TUNED = {**SHARED, **schedule(1e-5, 200, 150, 10),
         **under('model.backbone', out_indices=[2, 4], frozen_stages=-1,
                 norm_eval=True, init_cfg=None),  # frozen BN, as DETR's
         'custom_hooks': 'RequireCheckpointHook'}
# DETR: the backbone at a tenth of the learning rate, its BN frozen
TENTH = 'optim_wrapper.paramwise_cfg.custom_keys.backbone.lr_mult'
V1 = {'294m': [48, 128], '508m': [72, 176]}  # stages 3 and 4


def recipes():
    """Names of the configurations and what the tables say of each."""
    folder = 'qbheat/coco/mf-dec-'
    for e in ENCODERS:
        for head, depths in DEPTHS.items():
            own = {'model.backbone.arch': f'mf-{e}', 'model.depths': depths,
                   'model.in_channels': [EIGHTH[e], LAST[e]], TENTH: None}
            frozen = f'mf-dec-{head}_mf-{e}_frozen_8xb2-500e_coco'
            yield f'qbheat/coco/{frozen}.py', {**LONG, **own}
            yield f'{folder}{head}_mf-{e}_ft_8xb2-200e_coco.py', {
                **TUNED, **own,
                'custom_hooks.RequireCheckpointHook.origin': frozen}
            if e == '285m':
                yield f'{folder}{head}_mf-{e}_frozen_8xb2-50e_coco.py', {
                    **SHORT, **own}
    yield f'{folder}211_mf-285m_frozen_1xb16-50e_coco.py', {
        **SHORT, 'model.backbone.arch': 'mf-285m',
        'model.in_channels': [48, 720], 'model.depths': [2, 1, 1],
        'train_dataloader.batch_size': 16}
    yield f'{folder}211_mf-285m_own-data.py', {
        **LONG, **OWN_DATA, 'model.backbone.arch': 'mf-285m',
        'model.in_channels': [48, 720], 'model.depths': [2, 1, 1]}
    for e, channels in V1.items():
        own = {'model.backbone.arch': f'mf-{e}', 'model.depths': [2, 1, 1],
               'model.backbone.out_indices': [2, 3],
               'model.in_channels': channels}
        yield f'{folder}211_mf-{e}_frozen_8xb2-50e_coco.py', {
            **SHORT, **own, 'model.backbone.frozen_stages': 6, TENTH: None}
        yield f'{folder}211_mf-{e}_e2e_8xb2-50e_coco.py', {
            **SHORT, **own, 'model.backbone.frozen_stages': -1,
            'model.backbone.norm_eval': True, TENTH: 0.1}


RECIPES = dict(recipes())
every = pytest.mark.parametrize('name', RECIPES)
# One of each kind, to be built: how mmdet reads what the tables say.
of_each_kind = pytest.mark.parametrize('name', [
    f'qbheat/coco/mf-dec-{name}.py' for name in (
        '522_mf-1.0g_frozen_8xb2-500e_coco', '211_mf-285m_ft_8xb2-200e_coco',
        '211_mf-294m_frozen_8xb2-50e_coco', '211_mf-294m_e2e_8xb2-50e_coco',
        '211_mf-285m_own-data')])


@every
def test_values_that_a_source_names(name):
    assert not differences(name, RECIPES[name])


def test_every_mf_dec_has_a_table():
    assert_tables(find('/mf-dec-'), RECIPES)


def test_what_is_said_of_detr_is_in_its_recipe():
    data = {path: value for path, value in COCO.items() if not path.startswith(
        (*KEEPING, *LOADERS, 'custom_hooks', 'model.backbone.',
         'auto_scale_lr.enable'))}
    # Ours are mmdet's own, which also compare the classes.
    for path in MATCHED:
        data[path] = data[path].replace('Matched', '')
    table = {**data, **DETR, TENTH: 0.1, 'model.backbone.norm_eval': True,
             'model.num_queries': 100, 'model.bbox_head.embed_dims': 256,
             'optim_wrapper.optimizer.lr': 1e-4,
             'optim_wrapper.optimizer.weight_decay': 1e-4}
    assert not differences(DETRS, table, cited(DETRS))


@pytest.mark.parametrize('name', find('/mf-dec-', '500e'))
def test_all_else_is_detrs_recipe(name):
    """But for the network, the length, and how runs are kept."""
    for path in departures(name, DETRS):
        assert path.startswith((
            'model.backbone.', 'model.encoder.', 'model.decoder.',
            'model.neck.', 'model.positional_encoding.', *KEEPING,
            TENTH.removesuffix('lr_mult'))) or path in {
            'model.type', 'model.depths', 'model.dropout',
            'model.in_channels', 'train_cfg.max_epochs',
            'train_cfg.val_interval', 'auto_scale_lr.enable',
            'optim_wrapper.optimizer.fused',  # changes no figure
            f'{STEP}.end', f'{STEP}.milestones', *MATCHED, *LOADERS}, path


@of_each_kind
def test_learning_rate_over_the_run(name, tmp_path):
    table = RECIPES[name]
    top = table['optim_wrapper.optimizer.lr']
    epochs = table['train_cfg.max_epochs']
    step, = table[f'{STEP}.milestones']
    rates = learning_rates(load(name), tmp_path, iterations=1)
    assert rates == pytest.approx([top] * step + [top / 10] * (epochs - step))


@of_each_kind
def test_the_loss_is_built_of_these_weights(name):
    model = load(name).model
    with DefaultScope.overwrite_default_scope('mmdet'):
        head = MODELS.build(dict(
            model.bbox_head, train_cfg=model.train_cfg,
            test_cfg=model.test_cfg))
    classes = RECIPES[name]['model.bbox_head.num_classes']
    weights = head.loss_cls.class_weight
    assert weights.tolist() == pytest.approx([1.] * classes + [0.1])
    assert not head.loss_cls.use_sigmoid
    assert (head.loss_cls.loss_weight, head.loss_bbox.loss_weight,
            head.loss_iou.loss_weight) == (1., 5., 2.)
    assert [cost.weight for cost in head.assigner.match_costs] == [1., 5., 2.]
    assert head.test_cfg['max_per_img'] == 100


@of_each_kind
def test_the_network_is_built_of_these_sizes(name):
    model, table = build(name), RECIPES[name]
    assert model.query_embedding.weight.shape == (100, 256)
    assert model.bbox_head.fc_cls.weight.shape[1] == 256
    rates = {m.p for m in model.decoder.modules()
             if isinstance(m, nn.Dropout)} | {
        m.dropout for m in model.decoder.modules()
        if isinstance(m, nn.MultiheadAttention)}
    assert rates - {0.} == {0.1}
    trained = {param.split('.')[0] for param, p in model.named_parameters()
               if p.requires_grad}
    assert ('backbone' in trained) == (
        table['model.backbone.frozen_stages'] == -1)
    assert len(trained) >= 3


@of_each_kind
def test_gradients_are_clipped_and_the_backbone_is_slower(name):
    table = RECIPES[name]
    assert wrapper_of(name).clip_grad_kwargs == dict(max_norm=0.1, norm_type=2)
    for param, group in groups_of(name).items():
        lr = table['optim_wrapper.optimizer.lr']
        if param.startswith('backbone.'):
            lr *= table.get(TENTH) or 1
        assert group['lr'] == pytest.approx(lr), param
        assert group['weight_decay'] == 1e-4, param


@pytest.mark.parametrize('name', [
    *find('211_mf-285m_ft_'), *find('294m_e2e_')])
def test_bn_of_a_trained_encoder_keeps_its_statistics(name):
    model = build(name)
    model.train()
    norms = [m for m in model.backbone.modules()
             if isinstance(m, nn.BatchNorm2d)]
    assert norms and not any(m.training for m in norms)
