"""mmdet's ways to use a trained detector, on the CPU."""
import pytest
import torch
from mmdet.apis import DetInferencer
from mmdet.registry import MODELS
from mmengine.config import Config
from torchvision.ops import roi_align

from qbheat_mm.cli import augment_at_test_time
from qbheat_mm.errors import UserError

from ..conftest import DRAWN_WORLD


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
