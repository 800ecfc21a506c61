"""The encoder: sizes, outputs, freezing."""
import itertools

import pytest
import torch
from mmcv.cnn.bricks import DropPath
from torch.nn.modules.batchnorm import _BatchNorm

from qbheat_mm.errors import UserError
from qbheat_mm.models import MobileFormer
from qbheat_mm.models.layers import MobileFormerBlock

from ..helpers.models import TINY

ALL = tuple(range(6))


def test_outputs_do_not_depend_on_other_outputs():
    full = MobileFormer(TINY, out_indices=ALL).eval()
    image = torch.randn(2, 3, 50, 70)
    outs = full(image)
    for indices in ((2, 4), (5, ), (1, ), (-1, -2)):
        model = MobileFormer(TINY, out_indices=indices).eval()
        model.load_state_dict(full.state_dict())
        for index, out in zip(indices, model(image)):
            torch.testing.assert_close(out, outs[index])
    assert MobileFormer(TINY).out_indices == (4, )


@pytest.mark.parametrize('indices', [(0, ), (2, ), (3, ), (0, 4), (1, 4),
                                     (2, 4), (4, )])
@pytest.mark.parametrize('last', [0, 1, 2])
def test_an_encoder_may_end_without_tokens(indices, last):
    stages = [[('mf-down', 16, 8)], [('mf', 16, 8)], [('mf', 16, 8)]]
    for stage in stages[last:]:
        stage[:] = [('lite', 16, 8)]
    stages[0] = [('mf-down', 16, 8)]
    model = MobileFormer(dict(stem=8, tokens=(3, 16), conv=32, stages=stages),
                         out_indices=indices).train()
    sum(out.sum() for out in model(torch.randn(2, 3, 32, 32))).backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad is not None) == parameter.requires_grad, name


@pytest.mark.parametrize('final_bridge', [False, True])
@pytest.mark.parametrize('frozen_stages', [-1, 0, 2, 4, 5])
def test_exactly_trained_parameters_get_a_gradient(frozen_stages,
                                                   final_bridge):
    arch = dict(TINY, final_bridge=final_bridge)
    for indices in ((0, ), (2, ), (3, ), (4, ), (5, ), (4, 5), (1, 5),
                    (2, 4), (3, 5)):
        model = MobileFormer(arch, out_indices=indices,
                             frozen_stages=frozen_stages).train()
        outs = [out for out in model(torch.randn(2, 3, 32, 32))
                if out.requires_grad]
        if outs:
            sum(out.sum() for out in outs).backward()
        for name, parameter in model.named_parameters():
            assert (parameter.grad is not None) == parameter.requires_grad, (
                indices, name)
        trained = {name.split('.')[0] for name, parameter
                   in model.named_parameters() if parameter.requires_grad}
        assert ('conv' in trained) == (4 in indices and frozen_stages < 5)
        assert ('final_bridge' in trained) == (
            final_bridge and 5 in indices and frozen_stages < 5)
        last = min(max(indices), 3)  # the last stage that runs
        assert ('stages' in trained) == (frozen_stages <= last)
        assert ('stem' in trained) == (frozen_stages < 0)


@pytest.mark.parametrize('frozen_stages', [0, 1, 3, 5])
def test_frozen_stages_do_not_change(frozen_stages):
    model = MobileFormer(TINY, out_indices=(4, 5), drop_path_rate=0.5,
                         frozen_stages=frozen_stages).train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad] or
        [torch.nn.Parameter(torch.zeros(()))], lr=0.1, weight_decay=0.1)
    for _ in range(3):
        outs = model(torch.randn(4, 3, 32, 32))
        if frozen_stages == 5:
            assert all(not out.requires_grad for out in outs)
        else:
            sum(out.square().sum() for out in outs).backward()
        optimizer.step()
    after = model.state_dict()
    frozen = ['stem.', 'tokens'] + [
        f'stages.{i}.' for i in range(min(frozen_stages, 4))
    ]
    if frozen_stages == 5:
        frozen.append('conv.')
    for name, value in before.items():
        if name.startswith(tuple(frozen)):
            assert torch.equal(value, after[name]), name
    changed = [n for n, v in before.items() if not torch.equal(v, after[n])]
    assert bool(changed) == (frozen_stages < 5)


def test_no_graph_is_built_through_frozen_stages():
    model = MobileFormer(TINY, out_indices=ALL, frozen_stages=3)
    outs = model(torch.randn(2, 3, 32, 32))
    assert [out.requires_grad for out in outs] == [False] * 3 + [True] * 3


def test_a_frozen_encoder_is_deterministic_in_train_mode():
    model = MobileFormer(TINY, frozen_stages=5, drop_path_rate=0.9).train()
    image = torch.randn(2, 3, 32, 32)
    first, second = model(image)[0], model(image)[0]
    assert torch.equal(first, second)
    assert torch.equal(first, model.eval()(image)[0])


def test_norm_eval_keeps_statistics():
    model = MobileFormer(TINY, norm_eval=True).train()
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    assert norms and not any(m.training for m in norms)
    assert model.training


def test_stochastic_depth_grows_linearly_and_acts():
    model = MobileFormer(TINY, drop_path_rate=0.8)
    first, *others = itertools.chain(*model.stages)
    rates = [first.drop_path.drop_prob, *(
        block.mobile.drop_path.drop_prob for block in others)]
    assert rates == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])
    for block in model.modules():
        if isinstance(block, MobileFormerBlock):  # all of its branches
            assert {part.drop_prob for part in block.modules()
                    if isinstance(part, DropPath)} == {
                        block.mobile.drop_path.drop_prob}
            assert block.former.drop_path.drop_prob > 0
            assert block.mobile_to_former.drop_path.drop_prob > 0
    image = torch.randn(4, 3, 32, 32)
    assert not torch.equal(model(image)[0], model(image)[0])


def test_layer_depth_follows_the_forward_order():
    model = MobileFormer(TINY)
    depths = [
        model.get_layer_depth(f'backbone.{name}', 'backbone.')
        for name, _ in model.named_parameters()
    ]
    ids = [depth for depth, _ in depths]
    assert ids == sorted(ids) and set(ids) == set(range(7))
    assert {total for _, total in depths} == {8}
    assert model.get_layer_depth('head.fc.weight', 'backbone.') == (7, 8)


@pytest.mark.parametrize('kwargs, message', [
    (dict(arch='mf-999'), "'mf-999' is unknown; known are mf-285m"),
    (dict(arch=dict(stem=8)), r"missing: \['conv', 'stages', 'tokens'\]"),
    (dict(arch=dict(TINY, stages=[[('mb', 8, 8)]])), "block 'mb'"),
    (dict(arch=TINY, out_indices=(6, )), 'no output 6'),
    (dict(arch=TINY, frozen_stages=6), 'frozen_stages=6 .*-1 and 5'),
])
def test_bad_settings_are_named(kwargs, message):
    with pytest.raises(UserError, match=message):
        MobileFormer(**kwargs)


@pytest.mark.parametrize('grad', [False, True])
def test_compiles_as_one_graph(grad):
    arch = dict(TINY, stages=[[('lite', 16, 8)],
                              [('mf-down', 16, 8), ('mf', 16, 8)]])
    model = MobileFormer(arch, out_indices=range(4)).eval()
    image = torch.randn(2, 3, 32, 32)
    with torch.set_grad_enabled(grad):
        whole = torch.compile(model, backend='eager', fullgraph=True)
        for out, expected in zip(whole(image), model(image)):
            torch.testing.assert_close(out, expected)


@pytest.mark.parametrize('device', [
    'cpu', pytest.param('cuda', marks=pytest.mark.skipif(
        not torch.cuda.is_available(), reason='needs a GPU'))])
@pytest.mark.parametrize('train', [True, False])
def test_maps_stay_in_half_precision_under_autocast(device, train):
    """Tokens are few and may be float32."""
    model = MobileFormer(TINY, out_indices=ALL).to(device).train(train)
    blocks = [block for stage in model.stages for block in stage]
    dtypes = []
    for part in (model.stem, *blocks, model.conv):
        part.register_forward_hook(lambda module, inputs, out: dtypes.append(
            (out[0] if isinstance(out, tuple) else out).dtype))
    with torch.autocast(device, torch.bfloat16):
        outs = model(torch.randn(2, 3, 64, 64, device=device))
    assert dtypes == [torch.bfloat16] * 7
    assert all(out.isfinite().all() for out in outs)


def test_stem_and_last_convolution_are_clipped_at_six():
    model = MobileFormer(arch=dict(
        stem=4, tokens=(2, 8), stages=[[('mf-down', 8, 8)]], conv=12)).eval()
    for part in model.modules():
        if isinstance(part, _BatchNorm):
            torch.nn.init.constant_(part.bias, 100.)
    assert (model.stem(torch.randn(1, 3, 16, 16)) == 6).all()
    assert (model.conv(torch.zeros(1, 8, 4, 4)) == 6).all()
