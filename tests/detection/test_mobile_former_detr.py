"""The detector: gradients, losses, hard batches, bad settings, inference."""
import copy

import pytest
import torch
from mmdet.apis import DetInferencer
from mmdet.models.layers import SinePositionalEncoding
from mmdet.registry import MODELS
from mmengine.config import Config
from mmengine.runner import Runner
from torchvision.ops import roi_align

from qbheat_mm.cli import augment_at_test_time
from qbheat_mm.detection.layers.scale import make_scale, upsample
from qbheat_mm.errors import UserError

from ..helpers.tools import DRAWN_WORLD
from .inputs import make_feats, make_samples

SIZES = [(131, 170), (97, 213)]


def run_loss(model, boxes, sizes=SIZES):
    """Losses of a batch with ``boxes[i]`` boxes in image i."""
    inputs, samples = make_samples(sizes, boxes)
    model.backbone.feats = make_feats(sizes)
    return model.loss(inputs, samples)


@pytest.mark.parametrize('depths, boxes', [
    ((2, 1, 1), (2, 3)), ((0, 0, 1), (2, 3)), ((1, 0, 0), (2, 3)),
    ((0, 2, 0), (2, 3)), ((2, 1, 1), (0, 0))])
def test_every_parameter_gets_a_gradient(build_head, depths, boxes):
    """Even without objects: DistributedDataParallel needs all gradients."""
    model = build_head(depths=depths)
    losses = run_loss(model, boxes)
    inner = [f'd{i}.' for i in range(sum(depths) - 1)]
    assert set(losses) == {
        f'{block}{part}' for block in ('', *inner)
        for part in ('loss_cls', 'loss_bbox', 'loss_iou')}
    sum(losses.values()).backward()
    for name, param in model.named_parameters():
        assert param.grad is not None, name
        assert not any(boxes) or param.grad.abs().sum() > 0, name


@pytest.mark.parametrize('size', [(8, 8), (17, 33), (100, 9), (129, 161)])
def test_any_image_size(build_head, size):
    model = build_head().eval()
    inputs, samples = make_samples([size])
    model.backbone.feats = make_feats([size])
    boxes = model.predict(inputs, samples)[0].pred_instances.bboxes
    assert torch.isfinite(boxes).all()
    assert boxes[:, 0::2].max() <= size[1] and boxes[:, 1::2].max() <= size[0]


def test_the_head_is_in_float32_under_autocast(build_head):
    """For NumPy, which matching goes through."""
    model, dtypes = build_head(), set()
    model.bbox_head.fc_cls.register_forward_hook(
        lambda module, inputs, out: dtypes.add(out.dtype))
    with torch.autocast('cpu', torch.bfloat16):
        run_loss(model, (2, 3))
        model.eval().predict(*make_samples(SIZES))
    assert dtypes == {torch.float32}


def test_two_models_from_one_config(build_head, tiny_config):
    # mmdet's head changes the loss_cls that it is given.
    config = copy.deepcopy(tiny_config.model)
    for _ in range(2):
        MODELS.build(tiny_config.model)
    assert tiny_config.model.bbox_head.loss_cls == config.bbox_head.loss_cls


@pytest.mark.parametrize('depths', [(0, 0, 0), (1, 2), (1, -1, 1)])
def test_impossible_depths_are_named(build_head, depths):
    with pytest.raises(UserError, match=r'depths=\(.*1/32, 1/16 and 1/8'):
        build_head(depths=depths)


def test_wrong_channels_are_named(build_head):
    model = build_head(in_channels=(6, 12))
    with pytest.raises(UserError, match=r'\(6, 10\).*in_channels=\(6, 12\)'):
        run_loss(model, (1, ))


def test_linear_layers_begin_as_in_detr(build_head):
    """Xavier's uniform distribution, and no bias."""
    layers = [m for m in build_head().decoder.modules()
              if isinstance(m, torch.nn.Linear)]
    assert len(layers) > 20
    for layer in layers:
        bound = (6 / (layer.in_features + layer.out_features))**0.5
        assert 0.9 * bound < layer.weight.abs().max() <= bound
        assert not layer.bias.any()


@pytest.mark.parametrize('loss, test_cfg, expected', [
    (None, dict(max_per_img=3), 3),
    (None, dict(max_per_img=50), 7),
    (None, None, 7),
    ('FocalLoss', None, 7),
    ('FocalLoss', dict(max_per_img=15), 15),
    ('FocalLoss', dict(max_per_img=100), 21),
])
def test_number_of_detections(build_head, head_config, loss, test_cfg,
                              expected):
    """A softmax head finds one class in a query, a sigmoid head several."""
    if loss:
        head_config.bbox_head.loss_cls = dict(
            type=loss, use_sigmoid=True, loss_weight=1.)
    model = build_head(test_cfg=test_cfg).eval()
    inputs, samples = make_samples(SIZES)
    model.backbone.feats = make_feats(SIZES)
    for sample in model.predict(inputs, samples):
        assert len(sample.pred_instances) == expected


@pytest.mark.parametrize('hw', [(5, 7), (4, 6), (7, 5), (6, 6)])
def test_maps_of_other_than_twice_the_size_are_replicated(hw):
    """As of a backbone that rounds down: 17 is more than twice 8."""
    x = torch.randn(2, 4, 3, 3)
    scale = make_scale(x, None, SinePositionalEncoding(2, normalize=True))
    double = torch.nn.functional.interpolate(
        x, scale_factor=2, mode='bilinear')
    padded = torch.nn.functional.pad(double, (0, 1, 0, 1), mode='replicate')
    torch.testing.assert_close(upsample(x, scale, hw),
                               padded[..., :hw[0], :hw[1]])
    assert make_scale(x.half(), None, SinePositionalEncoding(2)
                      ).pos.dtype == torch.float16


@pytest.mark.parametrize('cells, fits', [(22, True), (18, True), (23, False),
                                         (17, False)])
def test_maps_may_be_two_cells_off(build_head, cells, fits):
    """As backbones round, and pad, differently; 20 cells of 8 are 160."""
    model = build_head().eval()
    inputs, samples = make_samples([(160, 160)])
    model.backbone.feats = (torch.zeros(1, 6, 20, cells),
                            torch.zeros(1, 10, 10, 10))
    if fits:
        model.predict(inputs, samples)
    else:
        with pytest.raises(UserError, match='out_indices'):
            model.predict(inputs, samples)


def test_defaults_are_those_of_mf_dec_522(head_config):
    kept = ('type', 'backbone', 'in_channels', 'bbox_head')
    config = {key: head_config[key] for key in kept}
    config['bbox_head'].embed_dims = 256
    model = MODELS.build(config)
    assert model.query_embedding.weight.shape == (100, 256)
    decoder = model.decoder
    assert [len(blocks) for blocks in decoder.stages] == [5, 2, 2]
    first, middle, last = (blocks[0] for blocks in decoder.stages)
    assert first.mobile.mlp.feedforward_channels == 2048
    assert middle.mobile.depthwise[0].out_channels == 6 * 256
    assert last.mobile.depthwise[0].out_channels == 4 * 256
    assert first.query_update.mlp.feedforward_channels == 1024
    assert {m.num_heads for m in decoder.modules()
            if hasattr(m, 'num_heads')} == {8}
    assert {m.p for m in decoder.modules()
            if isinstance(m, torch.nn.Dropout)} == {0.1}
    assert first.mobile.attn.dropout == 0.1


@pytest.mark.parametrize('depths, expansions, expected', [
    ((2, 1, 1), None, (2, 2)), ((5, 2, 2), None, (6, 4)),
    ((1, 1, 1), None, (2, 2)), ((1, 1, 1), (3, 5), (3, 5))])
def test_expansions(build_head, depths, expansions, expected):
    model = build_head(depths=depths, expansions=expansions)
    for blocks, ratio in zip(model.decoder.stages[1:], expected):
        conv = blocks[0].mobile.depthwise[0]
        assert conv.out_channels == ratio * conv.in_channels


def test_ap50_of_images_learned_by_heart(tmp_path):
    """The shipped run of 32 images, cut to four, in width and in steps.

    Three seeds ended at 0.96, 1.00 and 0.92; without learning it is 0.
    """
    cfg = Config.fromfile(DRAWN_WORLD / 'mf-dec-211_mf-demo_overfit.py')
    cfg.work_dir = cfg.experiment_name = str(tmp_path)
    cfg.model.update(
        embed_dims=64, num_heads=4, mobile_mlp_dims=128, former_mlp_dims=128)
    cfg.model.bbox_head.embed_dims = 64
    for loader in (cfg.train_dataloader, cfg.val_dataloader):
        loader.batch_size = 4
        loader.dataset.update(sizes='tiny', indices=4)
    cfg.train_cfg.update(max_epochs=70, val_interval=70)
    cfg.param_scheduler[0].end = 20
    cfg.optim_wrapper.optimizer.lr = 2e-3
    runner = Runner.from_cfg(cfg)
    runner.train()
    ap50 = runner.message_hub.get_scalar('val/coco/bbox_mAP_50').current()
    assert ap50 > 0.8


def test_the_inferencer_needs_the_checkpoint_alone(head_runs, coco_root,
                                                   tmp_path):
    """Not the encoder's, which a frozen run asks for."""
    _, checkpoint = head_runs['dec']
    inferencer = DetInferencer(weights=checkpoint, device='cpu',
                               palette='random', show_progress=False)
    assert inferencer.cfg.model.backbone.init_cfg.type == 'PretrainedEncoder'
    found, = inferencer(str(coco_root / '0.png'))['predictions']
    assert len(found['scores']) > 0
    (tmp_path / 'bad.jpg').write_bytes(b'no image')
    with pytest.raises(UserError, match="bad.jpg' is not an image"):
        inferencer(str(tmp_path / 'bad.jpg'))


def test_flips_are_told_where_keys_are_named(tiny_config):
    cfg = Config(tiny_config.to_dict())
    assert 'flip' not in cfg.test_dataloader.dataset.pipeline[-1].meta_keys
    augment_at_test_time(cfg)
    pack, = cfg.test_dataloader.dataset.pipeline[-1].transforms[-1]
    assert {'flip', 'flip_direction', 'scale_factor'} <= set(pack.meta_keys)


@torch.no_grad()
def test_rois_are_cut_from_the_maps_of_the_encoder():
    """mmcv's RoIAlign takes maps of any layout for contiguous ones."""
    cfg = Config.fromfile(
        DRAWN_WORLD / 'mask-rcnn_mf-demo_fpn_frozen.py').model
    cfg.backbone.init_cfg = None
    model = MODELS.build(cfg).eval()
    level, *_ = model.extract_feat(torch.randn(1, 3, 64, 64))
    boxes = torch.tensor([[0., 8., 12., 50., 60.]])
    torch.testing.assert_close(
        model.roi_head.mask_roi_extractor([level], boxes),
        roi_align(level, boxes, 14, spatial_scale=1 / 8, aligned=True))
