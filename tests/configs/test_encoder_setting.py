# Copyright (c) QB-Heat MM authors. All rights reserved.
"""encoder=FILE puts a published encoder into the shipped configs."""
import copy
import json
import shutil
import sys

import pytest
import safetensors
import timm
import torch
from mmengine.config import Config
from mmengine.model import BaseModule
from mmengine.registry import DefaultScope
from mmpretrain import get_model
from mmpretrain.models import ResNet
from mmpretrain.registry import MODELS
from torch import nn
from torch.nn import functional as F

from qbheat_mm.apis import load_encoder, published_encoder
from qbheat_mm.config.encoder import Outputs, use_encoder
from qbheat_mm.errors import UserError
from qbheat_mm.export import export_encoder, export_network
from qbheat_mm.models.backbones import TimmEncoder
from qbheat_mm.models.selfsup.qbheat import reject_pixel_attention
from qbheat_mm.trained import Checkpoint, Encoder, Normalization

from ..helpers.shipped import find, load
from ..helpers.tools import ROOT, run_tool
from .steps import (
    config_of,
    encoder_of,
    small,
    take_a_step,
    train_on_two_processes,
)

BENCHMARKS, OWN = 'qbheat/benchmarks/mf-285m_1xb256', '_own-folders.py'
LINEAR = f'{BENCHMARKS}-linear-coslr-90e{OWN}'
FINE_TUNING = f'{BENCHMARKS}-ft-tran1-coslr-200e{OWN}'
RETINANET = 'qbheat/coco/retinanet_mf-285m_own-data.py'
PRETRAINING = 'qbheat/qbheat_mf-285m_1xb64-amp-coslr-80e_own-images.py'
CONFIGS = [
    LINEAR, f'{BENCHMARKS}-tran1-coslr-200e{OWN}',
    FINE_TUNING, RETINANET,
    'qbheat/coco/mask-rcnn_mf-285m_own-data.py',
    'qbheat/coco/fcos_mf-285m_fpn_frozen_8xb2-1x_coco.py',
    'qbheat/coco/dino_mf-285m_4scale_frozen_8xb2-12e_coco.py', PRETRAINING,
    'mocov2/mocov2_mf-285m_1xb256-coslr-200e_own-images.py']
RESNET = dict(
    data_preprocessor=dict(mean=[120., 110., 100.], std=[60., 50., 40.],
                           to_rgb=True),
    model=dict(
        type='ImageClassifier',
        backbone=dict(type='ResNet', depth=18, base_channels=4,
                      stem_channels=4),
        neck=dict(type='GlobalAveragePooling'),
        head=dict(type='LinearClsHead', num_classes=3, in_channels=32)))


@pytest.fixture(scope='session')
def weights(tmp_path_factory):
    """Names and files of random weights of timm and mmpretrain."""
    folder = tmp_path_factory.mktemp('published')
    torch.manual_seed(0)
    networks = {f'timm/{name}': timm.create_model(name, num_classes=3)
                for name in ('test_efficientnet', 'test_resnet')}
    config = folder / 'resnet.py'
    Config(RESNET).dump(config)
    networks[str(config)] = get_model(str(config))
    for i, network in enumerate(networks.values()):
        network.train()(torch.randn(4, 3, 64, 64))  # BN statistics
        torch.save(network.state_dict(), folder / f'{i}.pth')
    return {name: (network.eval(), str(folder / f'{i}.pth'))
            for i, (name, network) in enumerate(networks.items())}


@pytest.fixture(scope='session')
def files(weights, tmp_path_factory):
    """Encoder files by package."""
    folder = tmp_path_factory.mktemp('encoders')
    return {package: export_encoder(
        published_encoder(name, file), folder / f'{package}.safetensors')
        for package, (name, (_, file)) in zip(
            ('timm', 'resnet', 'mmpretrain'), weights.items())}


@pytest.mark.parametrize('package', ['timm', 'mmpretrain'])
def test_features_and_normalization_are_the_published_ones(weights, files,
                                                           package):
    encoder = load_encoder(files[package])
    (timms, _), _, (mmpretrains, _) = weights.values()
    features, mean = ((timms.forward_features, 255 * 0.485)
                      if package == 'timm' else
                      (lambda x: mmpretrains.backbone(x)[-1], 120.))
    images = torch.randn(2, 3, 96, 64)
    with torch.no_grad():
        last, = encoder(images)
        torch.testing.assert_close(last, features(images))
    # mmcv's RoIAlign misreads others.
    assert last.is_contiguous()
    assert encoder.normalization.mean[0] == pytest.approx(mean)
    assert encoder.normalization.rgb


@pytest.mark.parametrize('package, name', [
    *(('timm', name) for name in CONFIGS),
    *((package, name) for package in ('resnet', 'mmpretrain')
      for name in (LINEAR, FINE_TUNING, RETINANET, PRETRAINING))])
def test_one_step(name, package, files, data, tmp_path):
    cfg = small(name, data, tmp_path)
    if 'qbheat/qbheat' in name:  # four quarters of stride 32
        cfg.train_dataloader.dataset.pipeline[0].scale = 128
    cfg.encoder = files[package]
    frozen = cfg.model.backbone.get('frozen_stages', -1) > 0
    use_encoder(cfg)
    # The dumped config is complete.
    cfg = Config.fromstring(cfg.pretty_text, '.py')
    runner = take_a_step(cfg)
    trained = encoder_of(runner.model)
    file = Checkpoint.read(files[package])
    assert file.normalization.is_close(Normalization.of(runner.model))
    for key, tensor in file.weights.items():
        found = trained[min((name for name in trained
                             if f'.{name}'.endswith(f'.{key}')), key=len)]
        if frozen:
            assert torch.equal(found, tensor), key
        elif key.endswith('weight'):
            assert (found - tensor).abs().max() < 0.05, key
    assert frozen != any(
        weight.requires_grad for weight in runner.model.backbone.parameters())


def test_a_work_folder_predicts_and_exports(files, folders, data, tmp_path,
                                            forget):
    """The dumped configs need neither the file nor the setting."""
    pytest.importorskip('mmcv.ops')
    small = 'train_dataloader.dataset.pipeline'
    for name, options in ((LINEAR, [
            f'train_dataloader.dataset.data_root={folders}',
            f'val_dataloader.dataset.data_root={folders}',
            f'{small}.0.scale=64', 'val_dataloader.num_workers=0',
            'train_cfg.max_epochs=1']), (
                RETINANET, [
                    f'train_dataloader.dataset.data_root={data["own"]}/',
                    'model.bbox_head.stacked_convs=1', 'train_cfg.max_iters=2',
                    f'{small}.2.scale=(64,64)'])):
        forget()
        run_tool('train.py', ROOT / 'configs' / name, '--no-validate',
                 '--work-dir', tmp_path / name[-12:-3], '--cfg-options',
                 f'encoder={files["timm"]}',
                 'train_dataloader.num_workers=0', *options)
    heads = [f'--head=a={tmp_path / LINEAR[-12:-3]}',
             f'--head=b={tmp_path / RETINANET[-12:-3]}']
    forget()
    run_tool('predict.py', *heads, folders / 'val', '--out', tmp_path / 'out',
             '--size', 160, 160)
    found = json.loads((tmp_path / 'out/predictions.json').read_text())
    assert {*found['images'][0]['found']} == {'a', 'b'}
    forget()
    with pytest.raises(UserError, match='stays frozen'):
        cfg = Config.fromfile(
            tmp_path / LINEAR[-12:-3] / LINEAR.split('/')[-1])
        MODELS.build(dict(cfg.model.backbone, frozen_stages=-1))
    # The encoder of a frozen run can be trained.
    cfg = load(PRETRAINING)
    cfg.encoder = str(tmp_path / LINEAR[-12:-3] / 'epoch_1.pth')
    use_encoder(cfg)
    assert cfg.model.backbone.type == 'TimmEncoder'
    # Exporting compares the file with PyTorch.
    run_tool('export.py', heads[0], '--format', 'pt2', '--out',
             tmp_path / 'classes.pt2')


def test_onnx(files, tmp_path):
    pytest.importorskip('onnxscript')
    facts = export_network(load_encoder(files['timm']),
                           tmp_path / 'encoder.onnx', (64, 64))
    assert facts['outputs'] == ('features', )
    assert facts['difference'] < 1e-5


@pytest.mark.parametrize('package', ['timm', 'mmpretrain'])
def test_a_detector_trains_an_encoder_with_its_batch_norm_statistics(
        package, files):
    cfg = load('qbheat/coco/gfl_mf-285m_own-data.py')
    cfg.model.backbone.frozen_stages = -1
    for encoder in (None, files[package]):
        if encoder:
            cfg.encoder = encoder
            use_encoder(cfg)
        backbone = MODELS.build({**cfg.model.backbone, 'init_cfg': None})
        assert any(weight.requires_grad for weight in backbone.parameters())
        backbone.train()
        norms = [module for module in backbone.modules()
                 if isinstance(module, torch.nn.BatchNorm2d)]
        assert norms and not any(norm.training for norm in norms)


def test_a_mobile_former_brings_its_arch(tmp_path):
    arch = dict(stem=8, tokens=(3, 16), conv=20, stages=[
        [('lite', 8, 8)], [('lite-down', 8, 8)], [('mf-down', 16, 12)],
        [('mf-down', 24, 12)]])
    normalization = Normalization((1., 2., 3.), (4., 5., 6.))
    backbone = MODELS.build(dict(type='MobileFormer', arch=arch))
    file = export_encoder(
        Encoder(backbone, normalization, settings=dict(
            type='MobileFormer', arch=arch)), tmp_path / 'a.safetensors')
    cfg = load('qbheat/coco/mf-dec-211_mf-285m_own-data.py')
    before = cfg.model.backbone.to_dict()
    cfg.encoder = file
    use_encoder(cfg)
    assert cfg.model.in_channels == [12, 20]
    after = cfg.model.backbone.to_dict()
    assert after['arch'] == json.loads(json.dumps(arch))
    assert {**before, 'arch': 0, 'init_cfg': 0} == {
        **after, 'arch': 0, 'init_cfg': 0}
    cfg = load(CONFIGS[1])
    cfg.encoder = file
    use_encoder(cfg)
    assert cfg.model.neck == dict(
        type='TransformerProbe', in_channels=20, token_dims=16,
        embed_dims=192, depth=1, drop_rate=0.1)
    assert cfg.model.data_preprocessor.std == [4., 5., 6.]


@pytest.mark.parametrize('name', find('mf-dec', 'mf-294m'))
def test_a_config_keeps_the_outputs_chosen_for_its_encoder(name, tmp_path):
    """V1 has a stage of stride 32, which MF-Dec doesn't read."""
    settings = dict(type='MobileFormer', arch='mf-294m')
    file = export_encoder(
        Encoder(MODELS.build(settings), Normalization((0., ), (1., )),
                settings=settings), tmp_path / 'a.safetensors')
    cfg, given = load(name), load(name)
    cfg.encoder = file
    use_encoder(cfg)
    given.model.backbone.init_cfg.checkpoint = file
    assert cfg.model.backbone == given.model.backbone
    assert [*cfg.model.in_channels] == [*given.model.in_channels]


POOLING, NORM, LAYER = (
    dict(type='PoolWithToken'),
    dict(type='ClsBatchNormNeck', input_features=912),
    dict(type='LinearNeck', in_channels=912, out_channels=912))


@pytest.mark.parametrize('neck, changed', [
    ([POOLING], [True]), ([POOLING, NORM], [True, True]),
    ([POOLING, LAYER], [True, False]),
    ([POOLING, NORM, LAYER, NORM], [True, True, False, False]),
    ([LAYER, LAYER], [True, False, False])])
def test_only_readers_of_the_features_get_their_width(neck, changed, files):
    """Not the parts after them, which have it by chance."""
    cfg = load(LINEAR)
    cfg.model.neck = copy.deepcopy(neck)
    cfg.encoder = files['timm']
    use_encoder(cfg)
    widths = []
    for part in (*cfg.model.neck, cfg.model.head):
        for name in ('in_channels', 'input_features'):
            if name in part:
                widths.append(part[name])
    last, = load_encoder(files['timm'])(torch.zeros(1, 3, 64, 64))
    width = last.shape[1]
    assert widths == [width if change else 912 for change in changed]


def test_a_probe_of_tokens_gets_the_width_of_the_map(files, tmp_path):
    """Not that of map and token, though the old encoder's is the same."""
    cfg = load(CONFIGS[1])
    own = Outputs.of(MODELS.build({**cfg.model.backbone, 'init_cfg': None}))
    arch = dict(stem=8, tokens=(3, 16), conv=own.width, stages=[
        [('lite', 8, 8)], [('lite-down', 8, 8)], [('mf-down', 16, 12)],
        [('mf-down', 24, 12)]])
    cfg.encoder = export_encoder(
        Encoder(MODELS.build(dict(type='MobileFormer', arch=arch)),
                Normalization(), settings=dict(
                    type='MobileFormer', arch=arch)),
        tmp_path / 'a.safetensors')
    use_encoder(cfg)
    assert cfg.model.neck.in_channels == own.width


@pytest.mark.parametrize('package', ['timm', 'mmpretrain'])
@pytest.mark.parametrize('name', [LINEAR, RETINANET])
def test_a_file_is_read_once(name, package, files, data, tmp_path,
                             monkeypatch):
    """And its network built three times: twice to learn of its outputs."""
    read, built = [], []
    copied = tmp_path / 'encoder.safetensors'
    shutil.copy(files[package], copied)
    monkeypatch.setattr(
        'safetensors.safe_open', count_calls(safetensors.safe_open, read))
    network = timm.create_model if package == 'timm' else ResNet.__init__
    monkeypatch.setattr(
        *((timm, 'create_model') if package == 'timm'
          else (ResNet, '__init__')), count_calls(network, built))
    cfg = small(name, data, tmp_path)
    cfg.encoder = str(copied)
    use_encoder(cfg)
    take_a_step(cfg)
    assert len(read) == 1 and len(built) <= 3
    shutil.copy(files['resnet'], copied)
    assert Checkpoint.read_once(copied).config['model']['backbone'][
        'name'] == 'test_resnet'


def count_calls(function, calls):
    """A function that does the same and adds to a list."""

    def call(*args, **kwargs):
        calls.append(args)
        return function(*args, **kwargs)

    return call


def refusal(name, **options):
    cfg = load(name)
    cfg.merge_from_dict(options)
    given = cfg.to_dict()
    with pytest.raises(UserError) as error:
        use_encoder(cfg)
    assert cfg.to_dict() == given  # all of the encoder, or nothing
    return str(error.value)


def test_refusals(files):
    assert 'needs maps of strides [8, 16]' in refusal(
        'qbheat/coco/mf-dec-211_mf-285m_own-data.py', encoder=files['timm'])
    one_map = {
        'encoder': files['timm'], 'model.backbone.out_indices': (4, ),
        'model.bbox_head.anchor_generator.strides': [16]}
    assert 'anchors for a map of stride 16' in refusal(RETINANET, **one_map)
    cfg = load(RETINANET)
    cfg.merge_from_dict({
        **one_map, 'model.bbox_head.anchor_generator.strides': [32]})
    use_encoder(cfg)
    options = {'encoder': files['timm'], 'model.backbone.frozen_stages': 2}
    assert 'frozen as a whole' in refusal(RETINANET, **options)
    assert 'needs tokens' in refusal(
        'mobile_former/mf-26m_8xb128-coslr-450e_in1k.py',
        encoder=files['timm'])
    with pytest.raises(UserError, match='Unknown model .resnet17'):
        published_encoder('timm/resnet17')
    with pytest.raises(UserError, match='neither timm'):
        published_encoder('resnet17')
    with pytest.raises(UserError, match='cannot read the config'):
        published_encoder('replknet-31B_3rdparty_in1k')
    with pytest.raises(UserError, match='spatial self-attention'):
        reject_pixel_attention(TimmEncoder('test_vit'))


@MODELS.register_module()
class FixedOutputs(BaseModule):
    """Maps of strides 4 to 32, or others, of which none can be left out."""

    def __init__(self, strides=(4, 8, 16, 32), init_cfg=None):
        super().__init__(init_cfg)
        self.strides = strides
        self.conv = nn.Conv2d(3, 8, 1)

    def forward(self, x):
        return tuple(self.conv(F.avg_pool2d(x, stride))
                     for stride in self.strides)


def write_fixed(file, **options):
    return export_encoder(Encoder(
        FixedOutputs(**options), Normalization(),
        settings=dict(type='FixedOutputs', **options)), file)


@pytest.mark.mmdet
@pytest.mark.parametrize('name', [
    RETINANET, 'qbheat/coco/gfl_mf-285m_own-data.py', CONFIGS[5]])
def test_maps_that_a_detector_does_not_need_are_left_out(name, tmp_path):
    file = write_fixed(tmp_path / 'a.safetensors')
    cfg = load(name)
    cfg.encoder = file
    use_encoder(cfg)
    with DefaultScope.overwrite_default_scope('mmdet'):
        model = MODELS.build(cfg.model)
    levels = model.extract_feat(torch.zeros(1, 3, 256, 256))
    assert [256 // level.shape[3] for level in levels] == [8, 16, 32, 64, 128]


@pytest.mark.mmdet
def test_maps_of_other_strides_are_refused(tmp_path):
    file = write_fixed(tmp_path / 'a.safetensors', strides=(8, 8, 16))
    assert 'needs maps of strides [8, 16], ' in refusal(
        RETINANET, encoder=file)
    file = write_fixed(tmp_path / 'b.safetensors')
    assert 'needs maps of strides' in refusal(CONFIGS[6], encoder=file)


def test_the_last_norm_of_a_swin_is_applied():
    encoder = TimmEncoder('swin_tiny_patch4_window7_224', embed_dim=24,
                          depths=(1, 1, 1, 1), num_heads=(1, 1, 1, 1)).eval()
    encoder.network.norm.weight.data.uniform_(0.2, 3)
    images = torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        last, = encoder(images)
        expected = encoder.network.forward_features(images)
    torch.testing.assert_close(last, expected.permute(0, 3, 1, 2))


def test_a_norm_layer_of_the_head_is_kept(tmp_path):
    file, network = tmp_path / 'a.pth', timm.create_model('test_convnext')
    torch.save(network.state_dict(), file)
    found = published_encoder('timm/test_convnext', file).state_dict()
    assert torch.equal(found['backbone.network.head.norm.weight'],
                       network.head.norm.weight)


@pytest.mark.parametrize('backbone, shape', [
    (dict(type='EdgeNeXt', arch=dict(
        channels=[8, 8, 8, 8], depths=[1, 1, 1, 1], num_heads=[1, 1, 1, 1])),
     (1, 8, 2, 2)),
    (dict(type='InceptionV3', num_classes=3, aux_logits=False), None),
    (dict(type='VisionTransformer', img_size=32, patch_size=16, arch=dict(
        embed_dims=8, num_layers=1, num_heads=1, feedforward_channels=8)),
     None)])
def test_published_networks_have_maps(backbone, shape, tmp_path):
    """Classifiers may pool before their last norm layer, or have no map."""
    config, file = tmp_path / 'net.py', tmp_path / 'net.pth'
    Config(dict(RESNET, model=dict(
        type='ImageClassifier', backbone=backbone))).dump(config)
    torch.save(get_model(str(config)).state_dict(), file)
    if shape is None:
        with pytest.raises(UserError, match='no feature map'):
            published_encoder(str(config), file)
    else:
        last, = published_encoder(str(config), file)(torch.zeros(1, 3, 64, 64))
        assert last.shape == shape


@pytest.mark.parametrize('name, unused', [
    ('mobilenetv3_small_050', 'network.conv_head'),
    ('hgnetv2_b0', 'network.head'), ('test_convnext', 'network.head.norm'),
    ('test_efficientnet', None), ('coat_lite_tiny', 'network.norm4')])
def test_layers_behind_the_map_are_not_trained(name, unused):
    """Or two processes would wait for gradients that never come."""
    encoder = TimmEncoder(name)
    sum(out.sum() for out in encoder(torch.randn(2, 3, 224, 224))).backward()
    for key, weight in encoder.named_parameters():
        assert (weight.grad is not None) == weight.requires_grad, key
        assert weight.requires_grad != key.startswith(unused or '-'), key


def test_two_processes_train_a_network_with_layers_behind_its_map(
        data, tmp_path):
    """For two steps: the second waits for the gradients of the first."""
    network = TimmEncoder('mobilenetv3_small_050')
    file = export_encoder(
        Encoder(network, Normalization(), settings=dict(
            type='TimmEncoder', name='mobilenetv3_small_050')),
        tmp_path / 'encoder.safetensors')
    cfg = config_of(FINE_TUNING, False, file, data, tmp_path)
    train_on_two_processes(cfg, tmp_path)


def test_without_timm(files, monkeypatch):
    monkeypatch.setitem(sys.modules, 'timm', None)
    with pytest.raises(UserError, match='pip install timm$'):
        load_encoder(files['timm'])
