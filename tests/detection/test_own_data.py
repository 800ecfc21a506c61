"""A data set of one's own, with all that such sets hold, trains."""
import json

import mmcv
import mmengine
import numpy as np
import pytest
import torch
from mmdet.registry import MODELS
from mmengine.config import Config
from mmengine.runner import Runner

from qbheat_mm.annotations.configs import (
    write_boxes_config,
    write_finetuning_config,
)
from qbheat_mm.annotations.training_plan import TrainingPlan
from qbheat_mm.errors import UserError

from ..helpers.shipped import shrink_pipeline
from ..helpers.tools import run_tool
from .inputs import TINY_ARCH, TINY_DECODER

CLASSES = ('cup', 'pen', 'key')
PLAN = TrainingPlan(8, (64, 48), (64, 48), 32., 600, 150, 0)
# (box, crowd) of the images, in turn; all of the odd images are empty.
OBJECTS = [
    [((8, 8, 24, 20), 0)],  # one object
    [],
    [((4, 4, 60, 40), 1)],  # a crowd and nothing else
    [],
    # without width, smaller than a pixel, outside, one pixel
    [((5, 5, 0, 9), 0), ((5, 5, .5, .5), 0), ((500, 500, 9, 9), 0),
     ((9, 9, 1, 1), 0)],
    [],
    [((0, 0, 64, 48), 0), ((0, 0, 64, 48), 1), ((30, 10, 20, 30), 0)],
    [],
]


@pytest.fixture
def data_root(tmp_path):
    """The layout of docs/own_data.md."""
    rng = np.random.default_rng(0)
    root = tmp_path / 'own'
    objects = [(i, *each) for i, some in enumerate(OBJECTS) for each in some]
    for i in range(len(OBJECTS)):
        image = rng.integers(0, 255, (48, 64, 3), dtype=np.uint8)
        mmcv.imwrite(image, str(root / f'images/{i}.png'))
    content = dict(
        images=[dict(id=i, file_name=f'{i}.png', height=48, width=64)
                for i in range(len(OBJECTS))],
        annotations=[dict(image_id=i, category_id=1 + j % 3, bbox=(x, y, w, h),
                          iscrowd=crowd, segmentation=[
                              [x, y, x + w, y, x + w, y + h, x, y + h]])
                     for j, (i, (x, y, w, h), crowd) in enumerate(objects)],
        categories=[dict(id=i, name=name)
                    for i, name in enumerate(CLASSES, 1)])
    (root / 'annotations').mkdir()
    for split in ('train', 'val'):
        (root / f'annotations/{split}.json').write_text(json.dumps(content))
    return root


@pytest.fixture(params=['mf-dec', 'gfl', 'retinanet', 'mask-rcnn'])
def own_config(request, data_root, tmp_path):
    """The config that prepare_boxes writes, made tiny."""
    write_boxes_config(data_root / 'boxes.py', request.param, CLASSES,
                       'images/', PLAN, 'val')
    return shrink(data_root / 'boxes.py', request.param, tmp_path)


def shrink(file, detector, tmp_path):
    cfg = Config.fromfile(file)
    cfg.model.backbone.update(arch=TINY_ARCH, init_cfg=None)
    torch.save(MODELS.build(cfg.model.backbone).state_dict(),
               tmp_path / 'encoder.pth')
    cfg.model.backbone.init_cfg = dict(
        type='PretrainedEncoder', checkpoint=str(tmp_path / 'encoder.pth'))
    if detector in ('gfl', 'retinanet'):
        cfg.model.neck.in_channels = [16, 32]
        cfg.model.test_cfg.score_thr = 0
    elif detector == 'mask-rcnn':
        cfg.model.neck.in_channels = [8, 16, 32]
        cfg.model.roi_head.bbox_head.fc_out_channels = 8
        cfg.model.roi_head.mask_head.conv_out_channels = 8
        cfg.model.train_cfg.rcnn.sampler.num = 16
        cfg.model.test_cfg.rcnn.update(score_thr=0., max_per_img=5)
    else:
        cfg.model.update(TINY_DECODER)
        cfg.model.bbox_head.embed_dims = 32
    for name in ('train', 'val', 'test'):
        loader = cfg[f'{name}_dataloader']
        loader.update(batch_size=1, num_workers=0, persistent_workers=False)
        shrink_pipeline(loader.dataset.pipeline, 64)
    cfg.train_dataloader.sampler.shuffle = False
    cfg.train_dataloader.pop('batch_sampler', None)  # would reorder
    if detector == 'mf-dec':
        cfg.train_cfg.update(max_epochs=2, val_interval=2)
    else:
        cfg.train_cfg.update(max_iters=16, val_interval=16)
        cfg.param_scheduler = None  # longer than the run
    cfg.default_hooks.logger.interval = 1
    cfg.work_dir = str(tmp_path / 'work')
    return cfg


def require_trained(model, encoder):
    """All values are finite, and the frozen encoder is as it was."""
    for name, tensor in model.state_dict().items():
        assert torch.isfinite(tensor).all(), name
        if name.startswith('backbone.'):
            assert torch.equal(
                tensor, encoder[name.removeprefix('backbone.')]), name


def test_one_image_a_batch(own_config, tmp_path):
    runner = Runner.from_cfg(own_config)
    runner.train()
    # None is left out.
    assert len(runner.train_dataloader.dataset) == len(OBJECTS)
    require_trained(runner.model, torch.load(tmp_path / 'encoder.pth'))
    scalars = runner.message_hub.log_scalars
    for name in CLASSES:  # which the evaluator was not told
        assert f'val/coco/{name}_precision' in scalars
    head = getattr(runner.model, 'roi_head', runner.model).bbox_head
    assert head.num_classes == 3
    if 'roi_head' in own_config.model:
        assert {'train/loss_mask', 'val/coco/segm_mAP'} <= scalars.keys()


@pytest.mark.parametrize('detector', ['gfl', 'retinanet', 'mask-rcnn'])
def test_the_encoder_is_finetuned(detector, data_root, tmp_path):
    """On crops of images of other scales, also of those without objects."""
    write_boxes_config(data_root / 'boxes.py', detector, CLASSES, 'images/',
                       PLAN, 'val')
    write_finetuning_config(data_root / 'boxes_ft.py')
    cfg = shrink(data_root / 'boxes_ft.py', detector, tmp_path)
    with pytest.raises(UserError, match=r'boxes\.py: .* load_from=FILE'):
        Runner.from_cfg(cfg).train()
    frozen = MODELS.build(cfg.model)
    frozen.init_weights()
    cfg.load_from = str(tmp_path / 'frozen.pth')
    torch.save(frozen.state_dict(), cfg.load_from)
    runner = Runner.from_cfg(cfg)
    runner.train()
    samples = runner.train_dataloader.dataset
    assert len(samples) == len(OBJECTS) and samples.prepare_data(1)
    heights = {samples[0]['inputs'].shape[1] for _ in range(20)}
    assert len(heights) > 3
    before = torch.load(tmp_path / 'encoder.pth')
    after = runner.model.backbone.state_dict()
    changed = {name for name in before
               if not torch.equal(before[name], after[name])}
    assert len(changed) > len(before) / 3
    assert all('running' not in name for name in changed)


@pytest.mark.parametrize('own_config', ['mask-rcnn'], indirect=True)
def test_saved_masks_are_run_length_encoded(own_config, tmp_path):
    """Full masks would not fit in memory."""
    own_config.dump(tmp_path / 'masks.py')
    torch.save(MODELS.build(own_config.model).state_dict(), tmp_path / 'a.pth')
    run_tool('test.py', tmp_path / 'masks.py', tmp_path / 'a.pth', '--out',
             tmp_path / 'found.pkl')
    predictions = mmengine.load(tmp_path / 'found.pkl')
    masks = [mask for sample in predictions
             for mask in sample['pred_instances']['masks']]
    assert len(predictions) == len(OBJECTS) and masks
    assert all(set(mask) == {'size', 'counts'} for mask in masks)
