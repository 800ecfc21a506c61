"""mmdet's ways to use a trained detector, on the CPU."""
import mmcv
import pytest
import torch
from mmdet.apis import DetInferencer, inference_detector, init_detector
from mmengine.config import Config, ConfigDict
from mmengine.runner import Runner
from mmengine.visualization import Visualizer

from qbheat_mm.cli import augment_at_test_time
from qbheat_mm.errors import UserError

from .conftest import CLASSES


@pytest.fixture
def trained(tiny_config, tmp_path, monkeypatch):
    """Configuration and checkpoint, as a frozen run leaves them."""
    cfg = tiny_config
    cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
    # Their own names, since visualizers live until the process ends.
    cfg.visualizer.name = tmp_path.name
    Runner.from_cfg(cfg).train()
    # The shipped configurations have this, which asks for an encoder: a
    # detector that is loaded as a whole must not.
    cfg.model.backbone.init_cfg = ConfigDict(
        type='PretrainedEncoder', checkpoint=None)
    cfg.dump(tmp_path / 'config.py')
    monkeypatch.setattr(Visualizer, '_instance_dict', {})
    return str(tmp_path / 'config.py'), f'{cfg.work_dir}/epoch_1.pth'


@pytest.fixture
def image(coco_root):
    return str(coco_root / '0.png')


def test_init_detector_and_inference_detector(trained, image):
    model = init_detector(*trained, device='cpu')
    assert tuple(model.dataset_meta['classes']) == CLASSES
    assert not model.training
    saved = torch.load(trained[1], weights_only=False)['state_dict']
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, saved[name]), name
    from_file = inference_detector(model, image).pred_instances
    from_array = inference_detector(model, mmcv.imread(image)).pred_instances
    assert len(from_file) == 9  # one for each query
    torch.testing.assert_close(from_file.bboxes, from_array.bboxes)
    height, width = mmcv.imread(image).shape[:2]
    assert from_file.bboxes[:, 2].max() <= width
    assert from_file.bboxes[:, 3].max() <= height


def test_the_inferencer_needs_the_checkpoint_alone(trained, image, tmp_path):
    inferencer = DetInferencer(weights=trained[1], device='cpu',
                               show_progress=False)
    found, = inferencer(image)['predictions']
    expected = inference_detector(
        init_detector(*trained, device='cpu'), image).pred_instances
    torch.testing.assert_close(torch.tensor(found['scores']), expected.scores)
    (tmp_path / 'bad.jpg').write_bytes(b'no image')
    with pytest.raises(UserError, match="bad.jpg' is not an image"):
        inferencer(str(tmp_path / 'bad.jpg'))


def test_flips_are_told_where_keys_are_named(tiny_config):
    cfg = Config(tiny_config.to_dict())
    assert 'flip' not in cfg.test_dataloader.dataset.pipeline[-1].meta_keys
    augment_at_test_time(cfg)
    pack, = cfg.test_dataloader.dataset.pipeline[-1].transforms[-1]
    assert {'flip', 'flip_direction', 'scale_factor'} <= set(pack.meta_keys)
