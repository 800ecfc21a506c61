"""mmdet's runner trains and evaluates on the frozen encoder."""
import pytest
import torch
from mmdet.registry import MODELS
from mmengine.hooks import Hook
from mmengine.runner import Runner


class StateBeforeTraining(Hook):
    """Remember the state of the model when training begins."""

    def before_train(self, runner):
        self.state = {
            name: value.clone()
            for name, value in runner.model.state_dict().items()
        }


@pytest.fixture
def retinanet_config(load_tiny):
    cfg = load_tiny('retinanet_mf-285m_fpn_frozen_8xb2-1x_coco')
    cfg.model.neck.update(in_channels=[16, 32], out_channels=16)
    cfg.model.bbox_head.update(in_channels=16, feat_channels=16)
    cfg.model.test_cfg.score_thr = 0  # an untrained head is sure of nothing
    return cfg


@pytest.mark.parametrize('fixture', ['tiny_config', 'retinanet_config'])
def test_runner_trains_all_but_the_encoder(fixture, request, tmp_path):
    cfg = request.getfixturevalue(fixture)
    encoder = MODELS.build(cfg.model.backbone).state_dict()
    torch.save(encoder, tmp_path / 'encoder.pth')
    cfg.model.backbone.init_cfg = dict(
        type='PretrainedEncoder', checkpoint=str(tmp_path / 'encoder.pth'))
    runner = Runner.from_cfg(cfg)
    hook = StateBeforeTraining()
    runner.register_hook(hook)
    runner.train()
    for name, value in runner.model.state_dict().items():
        assert torch.isfinite(value).all()
        if name.startswith('backbone.'):
            value_before = encoder[name.removeprefix('backbone.')]
            assert torch.equal(value, value_before), name
        else:
            assert not torch.equal(value, hook.state[name]), name
    assert 'val/coco/bbox_mAP' in runner.message_hub.log_scalars
