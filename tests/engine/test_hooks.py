# Copyright (c) QB-Heat MM authors. All rights reserved.
import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.model import BaseModel
from mmengine.runner import Runner
from torch import nn

from qbheat_mm.errors import UserError


class Numbers(BaseDataset):

    def __init__(self):
        super().__init__()

    def load_data_list(self):
        return [dict(x=i) for i in range(4)]


class Network(BaseModel):
    """The loss becomes infinite in the step after ``breaks_after`` steps."""

    def __init__(self, width=2, breaks_after=None):
        super().__init__()
        self.backbone = nn.Linear(width, 1)
        self.head = nn.Linear(1, 1)
        self.steps, self.breaks_after = 0, breaks_after

    def forward(self, inputs=None, mode='loss', **kwargs):
        x = torch.ones(1, self.backbone.in_features)
        loss = self.head(self.backbone(x)).square().mean()
        if self.steps == self.breaks_after:
            loss = loss / 0.
        self.steps += 1
        return dict(loss_box=loss, loss_class=torch.tensor(0.25))


def build(work_dir, model=None, hooks=(), **settings):
    return Runner(
        model=model or Network(),
        work_dir=str(work_dir),
        train_dataloader=dict(
            dataset=Numbers(), batch_size=2, num_workers=0,
            sampler=dict(type='DefaultSampler')),
        train_cfg=dict(by_epoch=True, max_epochs=3),
        optim_wrapper=dict(optimizer=dict(type='SGD', lr=0.01)),
        custom_hooks=list(hooks),
        log_level='ERROR',
        cfg=Config(settings),
        **settings)


def train(*args, **kwargs):
    runner = build(*args, **kwargs)
    runner.train()
    return runner


def refusal(*args, **kwargs):
    with pytest.raises(UserError) as error:
        train(*args, **kwargs)
    assert '\n' not in str(error.value)
    return str(error.value)


STOP = dict(type='StopOnNonFiniteLossHook')
MATCH = dict(type='CheckpointMatchHook')
REQUIRE = dict(type='RequireCheckpointHook', origin='the probing run')


def test_a_loss_that_is_not_finite_stops_before_a_checkpoint(tmp_path):
    message = refusal(tmp_path, Network(breaks_after=3), [STOP])
    assert 'iteration 4 of epoch 2' in message
    assert 'loss_box inf' in message and 'loss_class 0.25' in message
    assert 'epoch_1.pth' in message and 'lr' in message
    assert not (tmp_path / 'epoch_2.pth').exists()


def test_the_stop_says_when_there_is_no_checkpoint(tmp_path):
    message = refusal(tmp_path, Network(breaks_after=0), [STOP])
    assert 'there is no good checkpoint yet' in message


def test_the_stop_names_the_last_checkpoint_that_is_good(tmp_path):
    # The last step of the second epoch ruins the weights, after its loss.
    model = Network(breaks_after=4)
    step = model.train_step

    def ruin(*args, **kwargs):
        outputs = step(*args, **kwargs)
        if model.steps == 4:
            model.head.bias.data.fill_(float('nan'))
        return outputs

    model.train_step = ruin
    message = refusal(tmp_path, model, [STOP])
    assert (tmp_path / 'epoch_2.pth').exists()
    assert f'the last good checkpoint is {tmp_path / "epoch_1.pth"}' in message
    assert message.endswith(f'--resume {tmp_path / "epoch_1.pth"}')


def test_a_finite_loss_goes_on(tmp_path):
    assert train(tmp_path, hooks=[STOP]).iter == 6


def test_a_run_that_needs_a_checkpoint_does_not_start_without(tmp_path):
    message = refusal(tmp_path, hooks=[REQUIRE])
    assert 'load_from=FILE' in message and 'the probing run' in message
    assert not list(tmp_path.glob('*.pth'))


def test_resuming_where_nothing_is_does_not_start_from_scratch(tmp_path):
    message = refusal(tmp_path, hooks=[REQUIRE], resume=True)
    assert str(tmp_path) in message and 'load_from=FILE' in message


def test_a_run_that_has_its_checkpoint_starts(tmp_path):
    train(tmp_path / 'a')
    last = tmp_path / 'a/epoch_3.pth'
    assert train(tmp_path / 'b', hooks=[REQUIRE, MATCH],
                 load_from=str(last)).iter == 6
    (tmp_path / 'b/epoch_3.pth').unlink()
    (tmp_path / 'b/last_checkpoint').write_text(str(tmp_path /
                                                    'b/epoch_2.pth'))
    assert train(tmp_path / 'b', hooks=[REQUIRE, MATCH], resume=True).iter == 6


@pytest.mark.parametrize('resume', [False, True])
def test_a_checkpoint_of_another_architecture_is_refused(tmp_path, resume):
    train(tmp_path / 'a', Network(width=5))
    last = str(tmp_path / 'a/epoch_3.pth')
    message = refusal(tmp_path / 'b', hooks=[MATCH], load_from=last,
                      resume=resume)
    assert 'backbone.weight: (1, 5) in the file, (1, 2) needed' in message
    assert last in message


def test_a_checkpoint_that_lacks_tensors_is_refused_unless_allowed(tmp_path):
    file = tmp_path / 'part.pth'
    part = {f'module.{name}': tensor
            for name, tensor in Network().state_dict().items()
            if not name.startswith('head.')}
    torch.save(dict(state_dict=part), file)
    message = refusal(tmp_path, hooks=[MATCH], load_from=str(file))
    assert '2 missing (head.weight, head.bias)' in message
    # Its encoder is there: the user is told how to take that alone.
    assert 'model.backbone.init_cfg.checkpoint instead of load_from' in message
    train(tmp_path, hooks=[dict(MATCH, allow_missing=['head.'])],
          load_from=str(file))


def test_more_than_the_model_needs_is_fine(tmp_path):
    file = tmp_path / 'more.pth'
    torch.save(dict(Network().state_dict(), decoder=torch.rand(2)), file)
    train(tmp_path, hooks=[MATCH], load_from=str(file))
