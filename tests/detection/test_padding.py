"""What stands in the padding of a batch changes nothing."""
import pytest
import torch

from .conftest import make_feats, make_samples

# Sizes of which none is a multiple of 16 or 32, one image fills the batch in
# neither direction, one in one, one in both.
SIZES = [(131, 170), (97, 213), (150, 213)]
FILLERS = [1e4, -3., float('nan'), float('inf')]


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


@pytest.mark.parametrize('filler', FILLERS)
@pytest.mark.parametrize('train', [False, True])
def test_garbage_in_the_padding_changes_nothing(build_head, train, filler):
    model = build_head().train(train)
    clean = hidden_states(model, SIZES, 0.)
    statistics = [b.clone() for b in model.buffers()]
    model = build_head().train(train)
    dirty = hidden_states(model, SIZES, filler)
    assert torch.isfinite(clean).all()
    torch.testing.assert_close(dirty, clean, rtol=0, atol=0)
    torch.testing.assert_close(list(model.buffers()), statistics)


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


def test_detections_do_not_depend_on_the_batch(build_head):
    model = build_head().eval()
    inputs, samples = make_samples(SIZES)
    model.backbone.feats = make_feats(SIZES, filler=float('nan'))
    together = model.predict(inputs, samples)
    for i, size in enumerate(SIZES):
        inputs, samples = make_samples([size])
        model.backbone.feats = cut_out(i)
        alone = model.predict(inputs, samples)[0].pred_instances
        for key in ('bboxes', 'scores', 'labels'):
            torch.testing.assert_close(
                together[i].pred_instances[key],
                alone[key],
                rtol=1e-4,
                atol=1e-4)
