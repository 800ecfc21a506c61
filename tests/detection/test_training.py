"""mmdet's runner trains and evaluates the detector."""
import torch
from mmdet.registry import MODELS
from mmengine.runner import Runner


def test_runner_trains_the_head_and_only_the_head(tiny_config, tmp_path):
    encoder = MODELS.build(tiny_config.model.backbone).state_dict()
    torch.save(encoder, tmp_path / 'encoder.pth')
    tiny_config.model.backbone.init_cfg = dict(
        type='PretrainedEncoder', checkpoint=str(tmp_path / 'encoder.pth'))
    runner = Runner.from_cfg(tiny_config)
    before = {k: v.clone() for k, v in runner.model.state_dict().items()}
    runner.train()
    for name, value in runner.model.state_dict().items():
        if name.startswith('backbone.'):
            value_before = encoder[name.removeprefix('backbone.')]
            assert torch.equal(value, value_before), name
        else:
            assert not torch.equal(value, before[name]), name
    assert 'val/coco/bbox_mAP' in runner.message_hub.log_scalars
