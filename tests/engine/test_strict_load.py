# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Checkpoints fill a whole model, or the run fails."""
import pytest
import torch
from mmengine.model import ImgDataPreprocessor

from qbheat_mm.engine import RequireCheckpointHook, StrictLoadHook
from qbheat_mm.errors import UserError

from .runs import Encoder, Network, build, refusal, train


@pytest.fixture
def saved(tmp_path):
    """A checkpoint's state dict, and a function that writes a changed one."""
    state = Network().state_dict()

    def save(change=lambda state: None, **meta):
        change(state)
        file = tmp_path / 'a.pth'
        torch.save(dict(state_dict=state, meta=meta), file)
        return str(file)

    return save


REQUIRE = dict(type='RequireCheckpointHook', origin='the probing run')


def test_a_required_checkpoint(tmp_path, saved):
    message = refusal(tmp_path / 'a', hooks=[REQUIRE])
    assert 'the probing run' in message and 'load_from=FILE' in message
    assert 'the probing run' in refusal(
        tmp_path / 'a', hooks=[REQUIRE], resume=True)
    train(tmp_path / 'b', epochs=1, hooks=[REQUIRE], load_from=saved())
    train(tmp_path / 'b', epochs=2, hooks=[REQUIRE], resume=True,
          scores=range(9))
    with pytest.raises(UserError, match='the probing run'):
        build(tmp_path / 'c', hooks=[REQUIRE]).val()
    assert RequireCheckpointHook().origin


@pytest.mark.parametrize('change, words', [
    (lambda s: s.pop('head.bias'), '1 tensors are missing (head.bias)'),
    (lambda s: s.update({'head.bias': torch.ones(3)}), 'shape (3,), not (1,)'),
    (lambda s: s['head.bias'].fill_(float('nan')), 'NaN'),
    (lambda s: s.update({'head.bias': torch.ones(1, dtype=torch.int8)}),
     'int8')])
def test_a_checkpoint_that_does_not_fit_stops(tmp_path, saved, change, words):
    file = saved(change)
    message = refusal(tmp_path / 'a', load_from=file)
    assert file in message and words in message
    assert 'checkpoint_match.allow_missing=' in message
    with pytest.raises(UserError):
        build(tmp_path / 'a', load_from=file).val()


def test_more_than_the_model_needs_is_fine(tmp_path, saved):
    file = saved(lambda s: s.update({'neck.weight': torch.ones(3)}))
    train(tmp_path / 'a', epochs=1, load_from=file)


def loaded(tmp_path, file, **hook):
    runner = build(tmp_path / 'a', load_from=file)
    runner.model.head.bias.data.fill_(9)
    next(h for h in runner.hooks if isinstance(h, StrictLoadHook)
         ).__init__(**hook)
    runner.load_checkpoint(file)
    return runner.model


@pytest.mark.parametrize('allow', ['head.', ['head.'], ''])
def test_what_may_be_missing_or_of_another_shape(tmp_path, saved, allow):
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

    def load(mean, **hook):
        runner = build(tmp_path / 'a', load_from=file)
        runner.model.data_preprocessor = ImgDataPreprocessor([mean], [2])
        hooks = [h for h in runner.hooks if isinstance(h, StrictLoadHook)]
        hooks[0].__init__(**hook)
        runner.load_checkpoint(file)

    load(1)
    with pytest.raises(UserError, match='was trained with BGR, mean 1'):
        load(5)
    load(5, allow_other_normalization=True)


def test_an_encoder_that_load_from_replaces(tmp_path, saved, monkeypatch):
    encoder = tmp_path / 'encoder.pth'
    torch.save({f'backbone.{name}': value + 5
                for name, value in Encoder(2).state_dict().items()}, encoder)
    wanted = dict(type='PretrainedEncoder', checkpoint=str(encoder))
    file = saved()
    runner = build(tmp_path / 'a', epochs=1, load_from=file, init_cfg=wanted)
    told = []
    monkeypatch.setattr(runner.logger, 'warning', told.append)
    runner.train()
    assert any('replaces that of model.backbone' in str(line)
               for line in told)
    # It must be in the checkpoint then, whatever may be missing.
    file = saved(lambda s: s.pop('backbone.fc.weight'))
    runner = build(tmp_path / 'b', load_from=file, init_cfg=wanted)
    next(h for h in runner.hooks if isinstance(h, StrictLoadHook)
         ).allow_missing = ('', )
    with pytest.raises(UserError, match='backbone.fc.weight'):
        runner.train()
