# Copyright (c) QB-Heat MM authors. All rights reserved.
import ast
import re
from types import SimpleNamespace

import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.evaluator import BaseMetric, Evaluator
from mmengine.model import (
    BaseDataPreprocessor,
    BaseModel,
    BaseModule,
    ImgDataPreprocessor,
)
from mmengine.registry import HOOKS
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
        if mode == 'predict':
            return [loss]
        if self.steps == self.breaks_after:
            loss = loss / 0.
        self.steps += 1
        return dict(loss_box=loss, loss_class=torch.tensor(0.25))


class Count(BaseMetric):

    def process(self, data_batch, data_samples):
        self.results.append(0)

    def compute_metrics(self, results):
        return dict(count=len(results))


class QuickRunner(Runner):
    """One that does not ask the machine for its compilers, for seconds."""

    def _log_env(self, env_cfg):
        pass


def build(work_dir, model=None, hooks=(), tested=False, **settings):
    loader = dict(dataset=Numbers(), batch_size=2, num_workers=0,
                  sampler=dict(type='DefaultSampler'))
    test = dict(test_dataloader=loader, test_cfg=dict(),
                test_evaluator=Evaluator(Count())) if tested else {}
    return QuickRunner(
        model=model or Network(),
        work_dir=str(work_dir),
        train_dataloader=loader,
        **test,
        train_cfg=dict(by_epoch=True, max_epochs=3),
        optim_wrapper=dict(optimizer=dict(type='SGD', lr=0.01)),
        custom_hooks=list(hooks),
        log_level='ERROR',
        cfg=Config(settings, format_python_code=False),
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
MATCH = dict(type='StrictLoadHook')
REQUIRE = dict(type='RequireCheckpointHook', origin='the probing run')


def test_a_loss_that_is_not_finite_stops_before_a_checkpoint(tmp_path):
    message = refusal(tmp_path, Network(breaks_after=3), [STOP])
    assert 'iteration 4 of epoch 2' in message
    assert 'loss_box inf' in message and 'loss_class 0.25' in message
    # Resuming would keep the rate that is to be lowered.
    assert re.search(r'load_from=\S*epoch_1\.pth for another learning rate, '
                     r'--resume \S*epoch_1\.pth', message)
    assert not (tmp_path / 'epoch_2.pth').exists()


def test_a_loss_that_grows_and_stays_finite_is_told_once():
    said = []
    runner = SimpleNamespace(
        iter=4, logger=SimpleNamespace(warning=said.append))
    hook = HOOKS.build(STOP)
    for loss in (1.2, 3., 119., 0.9):
        hook.after_train_iter(runner, 0, outputs=dict(loss=torch.tensor(loss)))
    assert not said
    for loss in (121., 5e4, 5e4):
        hook.after_train_iter(runner, 0, outputs=dict(loss=torch.tensor(loss)))
    assert len(said) == 1 and '121 in iteration 5' in said[0]
    assert 'optim_wrapper.optimizer.lr' in said[0]


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


def test_the_newest_good_checkpoint_is_named_not_the_oldest(tmp_path):
    message = refusal(tmp_path, Network(breaks_after=4), [STOP])
    assert f'the last good checkpoint is {tmp_path / "epoch_2.pth"}' in message


def test_a_cut_checkpoint_does_not_hide_that_the_loss_is_not_finite(tmp_path):
    train(tmp_path)
    for name in ('epoch_2.pth', 'epoch_3.pth'):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-99])
    message = refusal(tmp_path, Network(breaks_after=0), [STOP])
    assert 'the loss is not finite in iteration 1 of epoch 1' in message
    assert f'the last good checkpoint is {tmp_path / "epoch_1.pth"}' in message


def test_weights_that_are_not_finite_are_told_as_such(tmp_path):
    model = Network()
    model.head.bias.data.fill_(float('nan'))
    message = refusal(tmp_path, model, [STOP])
    assert 'before the first step (head.bias)' in message
    assert 'the initialization' in message and 'lr' not in message
    file = tmp_path / 'a.pth'
    torch.save(dict(state_dict=model.state_dict()), file)
    message = refusal(tmp_path, Network(), [STOP], load_from=str(file))
    assert f"checkpoint '{file}'" in message and 'lr' not in message


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


def test_a_test_needs_a_checkpoint_and_is_content_with_one(tmp_path):
    train(tmp_path / 'a')
    file = str(tmp_path / 'a/epoch_3.pth')

    def evaluate(how):
        runner = build(tmp_path / 'b', hooks=[REQUIRE], tested=True,
                       load_from=file if how == 'load_from' else None)
        if how == 'by hand':
            runner.load_checkpoint(file)
        return runner.test()

    assert evaluate('load_from') == evaluate('by hand') == dict(count=2)
    with pytest.raises(UserError, match='random weights.*load_from=FILE'):
        evaluate('with nothing')
    # Training would initialise again what was loaded by hand.
    runner = build(tmp_path / 'b', hooks=[REQUIRE])
    runner.load_checkpoint(file)
    with pytest.raises(UserError, match='load_from is not set'):
        runner.train()


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
    for allowed in (['head.'], 'head.'):
        train(tmp_path, hooks=[dict(MATCH, allow_missing=allowed)],
              load_from=str(file))


def test_a_name_that_may_be_absent_is_no_list_of_letters(tmp_path):
    # Each name of the model begins with one of the letters of 'head.b'.
    file = tmp_path / 'part.pth'
    torch.save(dict(state_dict={'head.bias': torch.zeros(1)}), file)
    message = refusal(tmp_path, hooks=[dict(MATCH, allow_missing='head.b')],
                      load_from=str(file))
    assert '3 missing' in message
    for wrong in ('', None, 1, [1], dict(head=1)):
        message = refusal(tmp_path, hooks=[dict(MATCH, allow_missing=wrong)],
                          load_from=str(file))
        assert 'StrictLoadHook: allow_missing=' in message


@pytest.mark.parametrize('change,words', [
    (lambda w: w.numpy(), 'a numpy.ndarray'), (lambda w: w.bool(), 'bool in'),
    (lambda w: w.to(torch.int8), 'int8 in'), (lambda w: w.to_sparse(), 'spar'),
    (lambda w: w.to('meta'), 'without values'), (lambda w: 3, 'a int'),
    (lambda w: w * float('nan'), 'holds NaN'),
])
@pytest.mark.parametrize('part,allowed', [('backbone.weight', []),
                                          ('head.weight', ['head.'])])
def test_what_would_load_as_something_else_is_refused(tmp_path, change, words,
                                                      part, allowed):
    weights = Network().state_dict()
    weights[part] = change(weights[part])
    file = tmp_path / 'a.pth'
    torch.save(dict(state_dict=dict(weights)), file)
    message = refusal(tmp_path, hooks=[dict(MATCH, allow_missing=allowed)],
                      load_from=str(file))
    assert words in message and part in message and str(file) in message


@pytest.mark.parametrize('names,suggestion', [
    (['head.0.weight'], "['head.0.']"), (['head.1.bias'], 'head.1.bias'),
    (['head.1.weight', 'head.1.bias'], "['head.1.']"),
    (['head.0.weight', 'head.1.weight', 'head.1.bias'], "['head.']"),
    (['head.1.bias', 'neck.weight', 'neck.bias'],
     "['head.1.bias', 'neck.']"),
])
def test_the_part_that_differs_is_suggested(tmp_path, names, suggestion):
    model = Network()
    model.neck = nn.Linear(2, 2)
    model.head = nn.Sequential(nn.Linear(1, 3, bias=False), nn.Linear(3, 1))
    state = {name: tensor for name, tensor in model.state_dict().items()
             if name not in names}
    file = tmp_path / 'a.pth'
    torch.save(dict(state_dict=state), file)
    message = refusal(tmp_path, model, [MATCH], load_from=str(file))
    setting = 'default_hooks.checkpoint_match.allow_missing='
    assert suggestion in message.split(setting)[1]
    allowed = ast.literal_eval(message.split(setting)[1].strip('"'))
    train(tmp_path, model, [dict(MATCH, allow_missing=allowed)],
          load_from=str(file))


class Preprocessor(ImgDataPreprocessor):
    """One that has pixels to compare and leaves numbers as they are."""

    forward = BaseDataPreprocessor.forward


def pixels(mean):
    return Preprocessor(mean=[mean], std=[1.], bgr_to_rgb=True)


def test_other_pixels_are_refused_unless_allowed(tmp_path):
    cfg = Config(dict(model=dict(data_preprocessor=dict(
        mean=[127.5], std=[1.], bgr_to_rgb=True)))).pretty_text
    file = str(tmp_path / 'a.pth')
    torch.save(dict(state_dict=Network().state_dict(), meta=dict(cfg=cfg)),
               file)
    encoder = dict(type='PretrainedEncoder', checkpoint=file)
    for mean in (127.5, 50.):
        whole, part = Network(), Network()
        part.backbone = Part(encoder)
        for model in (whole, part):
            model.data_preprocessor = pixels(mean)
        if mean == 127.5:
            train(tmp_path, whole, [MATCH], load_from=file)
            train(tmp_path, part, [MATCH])
            continue
        message = refusal(tmp_path, whole, [MATCH], load_from=file)
        assert 'mean 127.5' in message and 'mean 50' in message
        assert message.endswith(
            'default_hooks.checkpoint_match.allow_other_pixels=True')
        message = refusal(tmp_path, part, [MATCH])
        assert file in message and message.endswith(
            'model.backbone.init_cfg.allow_other_pixels=True')
        train(tmp_path, whole, [dict(MATCH, allow_other_pixels=True)],
              load_from=file)
        part.backbone = Part(dict(encoder, allow_other_pixels=True))
        train(tmp_path, part, [MATCH])


class Part(BaseModule):
    """The encoder of :class:`Network` with an initialisation of its own."""

    in_features = 2

    def __init__(self, init_cfg):
        super().__init__(init_cfg)
        self.weight = nn.Parameter(torch.zeros(1, 2))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return nn.functional.linear(x, self.weight, self.bias)


def test_more_than_the_model_needs_is_fine(tmp_path):
    file = tmp_path / 'more.pth'
    torch.save(dict(Network().state_dict(), decoder=torch.rand(2)), file)
    train(tmp_path, hooks=[MATCH], load_from=str(file))
