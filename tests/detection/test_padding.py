"""The padding of a batch changes nothing."""
import copy

import pytest
import torch
from mmengine.model import convert_sync_batchnorm
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils._python_dispatch import TorchDispatchMode

from qbheat_mm.detection.layers.scale import make_scale, zero_padding

from .inputs import make_feats, make_samples

# Sizes of which none is a multiple of 16 or 32, one image fills the batch in
# neither direction, one in one, one in both.
SIZES = [(131, 170), (97, 213), (150, 213)]


def cut_out(i):
    """Maps of image ``i`` alone, as they stand in the batch."""
    return tuple(feat[i:i + 1, :, :-(-SIZES[i][0] // stride), :-(
        -SIZES[i][1] // stride)]
                 for feat, stride in zip(make_feats(SIZES), (8, 16)))


def hidden_states(model, sizes, filler, batch_shape=None):
    """States of the queries, (blocks, images, queries, C), in double."""
    model.double()
    inputs, samples = make_samples(sizes, batch_shape=batch_shape)
    feats = make_feats(sizes, batch_shape, filler=filler)
    torch.manual_seed(2)  # of dropout
    return model.forward_transformer(
        tuple(feat.double() for feat in feats), samples)['hidden_states']


@pytest.mark.parametrize('depths', [(2, 1, 1), (0, 2, 1), (1, 0, 1)])
def test_image_in_a_batch_equals_image_alone(build_head, depths):
    model = build_head(depths=depths).eval()
    # Not the statistics of a fresh BN, which would hide a constant.
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(module.running_mean)
            torch.nn.init.normal_(module.bias)
    together = hidden_states(model, SIZES, float('nan'), (201, 250))
    for i, size in enumerate(SIZES):
        _, samples = make_samples([size])
        feats = tuple(feat.double() for feat in cut_out(i))
        alone = model.forward_transformer(feats, samples)['hidden_states']
        torch.testing.assert_close(together[:, i:i + 1], alone)


def train_once(model, sizes, batch_shape=None, filler=float('nan')):
    """States, statistics and gradients of a training step, in double."""
    torch.manual_seed(3)
    model.double().train()
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.momentum = 1.  # the statistics of this batch alone
    _, samples = make_samples(sizes, batch_shape=batch_shape)
    feats = [feat.double().requires_grad_()
             for feat in make_feats(sizes, batch_shape, filler=filler)]
    states = model.forward_transformer(feats, samples)['hidden_states']
    weight = torch.randn(states.shape, dtype=torch.double)
    (states * weight).sum().backward()
    return dict(
        states=states, buffers=dict(model.named_buffers()),
        grads={n: p.grad for n, p in model.named_parameters()},
        feats=[torch.where(feat.isnan(), 0, feat).detach() for feat in feats],
        feat_grads=[feat.grad for feat in feats])


def content_of(maps, sizes, stride):
    """Values of a map inside the images, (positions, C)."""
    return torch.cat([
        one[:, :-(-h // stride), :-(-w // stride)].flatten(1).T
        for one, (h, w) in zip(maps, sizes)])


@pytest.mark.parametrize('sizes, batch_shape, filler', [
    # no image is padded in the tighter batch, all are in the other
    ([(131, 170)] * 2, (201, 250), float('nan')),
    ([(128, 192)] * 3, (160, 192), 1e4),
    # some are
    (SIZES, (200, 300), float('inf')),
])
def test_padding_changes_no_step_of_training(build_head, sizes, batch_shape,
                                             filler):
    """Neither the statistics of BN, which see the content, nor gradients."""
    model = build_head(dropout=0.)
    tight = train_once(copy.deepcopy(model), sizes)
    wide = train_once(model, sizes, batch_shape, filler)
    for key in ('states', 'buffers', 'grads'):
        torch.testing.assert_close(wide[key], tight[key])
    for i, stride in enumerate((8, 16)):
        torch.testing.assert_close(
            *(content_of(run['feat_grads'][i], sizes, stride)
              for run in (wide, tight)))
        assert wide['feat_grads'][i].isfinite().all()


def test_synchronized_norms_see_the_content_too(build_head):
    """`sync_bn='torch'` of a configuration, in a single process."""
    model = build_head(dropout=0.)
    sync = convert_sync_batchnorm(copy.deepcopy(model))
    assert any(isinstance(m, torch.nn.SyncBatchNorm) for m in sync.modules())
    expected, found = (
        train_once(m, SIZES, (201, 250)) for m in (model, sync))
    for key in ('states', 'buffers', 'grads'):
        torch.testing.assert_close(found[key], expected[key])


def test_evaluation_keeps_bn_folded(build_head):
    model = build_head().eval()
    calls = []
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        folded = hidden_states(model, SIZES, 0.)
    assert not calls
    torch.testing.assert_close(folded, hidden_states(model, SIZES, 0.))
    assert len(calls) == 12


def test_masking_keeps_the_layout(build_head):
    """A copy of each map, and slower convolutions, are saved by it."""
    encoding = build_head().decoder.encoding
    x = torch.randn(2, 32, 4, 5).to(memory_format=torch.channels_last)
    x[0, :, 3] = float('nan')
    scale = make_scale(x, [(3, 5), (4, 5)], encoding)
    for dtype in (torch.float32, torch.bfloat16):
        out = zero_padding(x.to(dtype), scale)
        assert out.is_contiguous(memory_format=torch.channels_last)
        assert out.dtype == dtype
        assert not out[0, :, 3].any()
        assert torch.equal(out[1], x[1].to(dtype))


class Copies(TorchDispatchMode):
    """Record whether copies between devices block."""

    def __init__(self):
        super().__init__()
        self.blocking = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.ops.aten._to_copy.default and kwargs.get(
                'device') not in (None, args[0].device):
            self.blocking.append(not kwargs.get('non_blocking', False))
        return func(*args, **kwargs)


def test_the_gpu_is_not_waited_for(build_head):
    x = torch.empty(2, 32, 4, 6, device='meta')
    with Copies() as copies:
        make_scale(x, [(4, 6), (3, 5)], build_head().decoder.encoding)
    assert copies.blocking and not any(copies.blocking)
