"""In bfloat16 the loss of MF-Dec goes down."""
import pytest
import torch
from mmengine.runner import Runner


@pytest.fixture
def losses_of(tiny_config):
    """Losses of the steps of a run with this wrapper."""

    def run(**wrapper):
        cfg = tiny_config
        torch.manual_seed(0)
        cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
        cfg.train_cfg.max_epochs = 60
        cfg.train_dataloader.batch_size = 4
        cfg.train_dataloader.dataset.pipeline = [
            step for step in cfg.train_dataloader.dataset.pipeline
            if step.type != 'RandomFlip'
        ]
        cfg.model.dropout = 0.
        cfg.default_hooks.checkpoint.update(interval=-1, save_best=None)
        cfg.optim_wrapper = dict(
            **wrapper, optimizer=dict(type='AdamW', lr=2e-3))
        runner = Runner.from_cfg(cfg)
        runner.train()
        history = runner.message_hub.get_scalar('train/loss')
        return history.data[0][:60]

    return run


def test_loss_goes_down(losses_of, amp_without_gpu):
    losses = losses_of(type='AmpOptimWrapper', dtype='bfloat16')
    assert losses[-10:].mean() < 0.6 * losses[:3].mean()
    assert torch.isfinite(torch.as_tensor(losses)).all()
