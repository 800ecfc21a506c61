# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Checkpoints fill a whole model, or the run fails."""
import copy

import pytest
import torch
from mmengine.model import ImgDataPreprocessor
from mmengine.registry import MODELS

from qbheat_mm.engine import StrictLoadHook
from qbheat_mm.errors import UserError
from qbheat_mm.models.backbones import FrozenBackbone
from qbheat_mm.trained import Checkpoint

from ..helpers.runs import Network, build, refusal, train


@pytest.fixture
def saved(tmp_path):
    """A function that saves a changed state dict."""
    state = Network().state_dict()

    def save(change=lambda state: None, **meta):
        change(state)
        file = tmp_path / 'a.pth'
        torch.save(dict(state_dict=state, meta=meta), file)
        return str(file)

    return save


REQUIRE = dict(type='StrictLoadHook', required='the probing run')


def test_a_required_checkpoint(tmp_path, saved):
    for resume in (False, True):
        message = refusal(tmp_path / 'a', hooks=[REQUIRE], resume=resume)
        assert 'the probing run' in message and 'load_from=FILE' in message
    train(tmp_path / 'b', epochs=1, hooks=[REQUIRE], load_from=saved())
    train(tmp_path / 'b', epochs=2, hooks=[REQUIRE], resume=True)
    with pytest.raises(UserError, match='the probing run'):
        build(tmp_path / 'c', hooks=[REQUIRE]).val()


def test_a_checkpoint_that_does_not_fit(tmp_path, saved):
    file = saved(lambda s: s.pop('head.bias'))
    message = refusal(tmp_path / 'a', load_from=file)
    assert file in message and '1 tensors are missing (head.bias)' in message
    assert 'checkpoint_match.allow_missing=' in message
    with pytest.raises(UserError):
        build(tmp_path / 'a', load_from=file).val()


def test_further_tensors_are_ignored(tmp_path, saved):
    file = saved(lambda s: s.update({'neck.weight': torch.ones(3)}))
    train(tmp_path / 'a', epochs=1, load_from=file)


def test_layers_that_the_model_lacks_are_refused(tmp_path, saved):
    """A deeper head would be cut off."""
    file = saved(lambda s: s.update({'head.deep.weight': torch.ones(3)}))
    message = refusal(tmp_path / 'a', load_from=file)
    assert '1 tensors are not part of it (head.deep.weight)' in message
    loaded(tmp_path, file, allow_missing='head.')


def test_tensors_are_renamed(tmp_path):
    runner = build(tmp_path / 'a')
    state = {f'old.{name}': torch.full_like(value, 7)
             for name, value in runner.model.state_dict().items()}
    torch.save(dict(state_dict=state), tmp_path / 'a.pth')
    runner.load_checkpoint(str(tmp_path / 'a.pth'),
                           revise_keys=[(r'^old\.', '')])
    assert all((value == 7).all()
               for value in runner.model.state_dict().values())


def loaded(tmp_path, file, preprocessor=None, **hook):
    """The model after loading a checkpoint with settings of the hook."""
    runner = build(tmp_path / 'a', load_from=file)
    runner.model.head.bias.data.fill_(9)
    if preprocessor is not None:
        runner.model.data_preprocessor = preprocessor
    next(h for h in runner.hooks if isinstance(h, StrictLoadHook)
         ).__init__(**hook)
    runner.load_checkpoint(file)
    return runner.model


@pytest.mark.parametrize('allow', ['head.', ['head.'], ''])
def test_allowed_tensors_may_differ(tmp_path, saved, allow):
    file = saved(lambda s: s.pop('head.bias'))
    assert loaded(tmp_path, file, allow_missing=allow).head.bias == 9
    file = saved(lambda s: s.update({'head.bias': torch.ones(3)}))
    assert loaded(tmp_path, file, allow_missing=allow).head.bias == 9
    file = saved(lambda s: s.pop('backbone.fc.bias'))
    if allow:
        with pytest.raises(UserError, match='backbone.fc.bias'):
            loaded(tmp_path, file, allow_missing=allow)


def test_another_normalization_is_refused_unless_allowed(tmp_path, saved):
    text = 'model = dict(data_preprocessor=dict(mean=[1], std=[2]))'
    file = saved(cfg=text)

    same, other = (ImgDataPreprocessor([mean], [2]) for mean in (1, 5))
    loaded(tmp_path, file, same)
    with pytest.raises(UserError, match='was trained with BGR, mean 1'):
        loaded(tmp_path, file, other)
    loaded(tmp_path, file, other, allow_other_normalization=True)


@pytest.mark.parametrize('mean, allow', [(1, False), (5, True), (5, False)])
def test_so_is_that_of_another_encoder(tmp_path, saved, mean, allow):
    file = saved(cfg='model = dict(data_preprocessor=dict(mean=[1], std=[2]))')
    runner = build(tmp_path / 'a', init_cfg=dict(
        type='PretrainedEncoder', checkpoint=file,
        allow_other_normalization=allow))
    runner.model.data_preprocessor = ImgDataPreprocessor([mean], [2])
    # Runner.train builds it before the hook.
    runner.optim_wrapper = runner.build_optim_wrapper(runner.optim_wrapper)
    if mean == 1 or allow:
        runner.call_hook('before_run')
    else:
        with pytest.raises(UserError, match='was trained with BGR, mean 1'):
            runner.call_hook('before_run')


def test_load_from_replaces_the_encoder(tmp_path, saved):
    wanted = dict(type='PretrainedEncoder', checkpoint='nowhere.pth')
    train(tmp_path / 'a', epochs=1, load_from=saved(), init_cfg=dict(wanted))
    # allow_missing does not apply to it.
    file = saved(lambda s: s.pop('backbone.fc.weight'))
    runner = build(tmp_path / 'b', load_from=file, init_cfg=wanted)
    next(h for h in runner.hooks if isinstance(h, StrictLoadHook)
         ).allow_missing = ('', )
    with pytest.raises(UserError, match='backbone.fc.weight'):
        runner.train()


NETWORKS = (dict(type='mmpretrain.ResNet', depth=18, stem_channels=8,
                 base_channels=8),
            dict(type='TimmEncoder', name='test_resnet'))


@pytest.mark.parametrize('settings', NETWORKS)
@pytest.mark.parametrize('was_frozen', [True, False])
def test_an_encoder_may_be_frozen_or_trained_from_now_on(
        settings, was_frozen, tmp_path):
    networks = [MODELS.build(settings), FrozenBackbone(settings)]
    before, after = networks[::-1] if was_frozen else networks
    model = Network()
    model.backbone = before
    state = {name: torch.full_like(value, 7)
             for name, value in model.state_dict().items()}
    torch.save(dict(state_dict=state), tmp_path / 'a.pth')
    runner = build(tmp_path / 'a', load_from=str(tmp_path / 'a.pth'))
    runner.model.backbone = after
    runner.load_checkpoint(str(tmp_path / 'a.pth'))
    model.backbone = copy.deepcopy(after)
    Checkpoint.read(tmp_path / 'a.pth').load_model(model)
    for loaded in (runner.model, model):
        for value in loaded.state_dict().values():
            assert (value == 7).all()
