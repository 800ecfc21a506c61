# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Heads on one encoder: each predicts what it predicts alone."""
import copy

import pytest
import torch
from mmengine.config import Config
from mmpretrain.models import ImageClassifier

from qbheat_mm.apis import load_heads
from qbheat_mm.errors import UserError
from qbheat_mm.export import load_model

from ..helpers.networks import RETINANET, write_run

pytest.importorskip('mmdet')
from mmdet.structures import DetDataSample  # noqa: E402

import qbheat_mm.detection  # noqa: E402, F401

SIZES = [[(128, 128)], [(90, 131)], [(67, 93), (128, 40), (33, 33)]]
PIXELS = dict(mean=[120.] * 3, std=[60.] * 3)
RESNET = dict(type='ResNet', depth=18, base_channels=4, stem_channels=4)
CLASSIFIER = dict(
    type='ImageClassifier', data_preprocessor=dict(PIXELS, to_rgb=True),
    backbone=RESNET, neck=dict(type='GlobalAveragePooling'),
    head=dict(type='LinearClsHead', num_classes=3, in_channels=32))


@pytest.fixture(scope='module')
def heads(head_runs):
    torch.set_num_threads(1)
    return load_heads(head_runs)


def images(sizes, seed=0):
    """A batch as a data loader of mmdet gives it."""
    generator = torch.Generator().manual_seed(seed)
    return dict(
        inputs=[torch.randint(0, 256, (3, *size), generator=generator,
                              dtype=torch.uint8) for size in sizes],
        data_samples=[DetDataSample(metainfo=dict(
            img_shape=size, ori_shape=(2 * size[0], 2 * size[1]),
            scale_factor=(0.5, 0.5), img_id=i))
            for i, size in enumerate(sizes)])


@pytest.fixture(scope='module')
def alone():
    """A function that gives what the model of a run predicts for a batch."""
    models = {}

    @torch.no_grad()
    def predict(run, batch):
        if run[1] not in models:
            models[run[1]] = load_model(*run)
        model = models[run[1]].model
        samples = copy.deepcopy(batch['data_samples'])
        return model.predict(batch['inputs'], None if isinstance(
            model, ImageClassifier) else samples)

    return predict


def require_equal(found, expected):
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        assert type(ours) is type(theirs)
        if 'pred_score' in theirs:
            assert torch.equal(ours.pred_label, theirs.pred_label)
            torch.testing.assert_close(ours.pred_score, theirs.pred_score,
                                       rtol=0, atol=1e-5)
            continue
        ours, theirs = ours.pred_instances, theirs.pred_instances
        assert len(theirs) and set(ours.keys()) == set(theirs.keys())
        for key in theirs.keys():  # noqa: SIM118
            assert torch.equal(ours[key], theirs[key]), key


def write(folder, *args):
    """Config and checkpoint of a model."""
    folder.mkdir()
    return write_run(folder, *args)[:3:2]


def changed(run, folder, tensor=None, **settings):
    """A copy of a run with another tensor or other settings."""
    cfg, content = copy.deepcopy(run[0]), torch.load(run[1])
    cfg.merge_from_dict(settings)
    if tensor:
        value = content['state_dict'][tensor]
        value.view(-1)[-1] += 1
    content['meta'] = {}
    torch.save(content, folder / 'changed.pth')
    return cfg, str(folder / 'changed.pth')


@pytest.mark.parametrize('sizes', SIZES)
def test_heads_find_what_each_finds_alone(alone, heads, head_runs, sizes):
    data = images(sizes)
    found = heads.test_step(copy.deepcopy(data))
    batch = heads.data_preprocessor(copy.deepcopy(data))
    assert list(found) == list(head_runs)
    for name, run in head_runs.items():
        require_equal(found[name], alone(run, batch))


def test_the_encoder_runs_once_and_samples_are_kept(heads):
    calls = []
    handle = heads.encoder.backbone.register_forward_hook(
        lambda *_: calls.append(1))
    batch = heads.data_preprocessor(images(SIZES[2]))
    before = copy.deepcopy(batch['data_samples'])
    found = heads(**batch)
    handle.remove()
    assert len(calls) == 1
    for given, known in zip(batch['data_samples'], before):
        assert given.keys() == known.keys()
    for samples in found.values():
        assert [sample.img_id for sample in samples] == [0, 1, 2]


def test_images_without_samples_fill_the_batch(alone, heads, head_runs):
    batch = heads.data_preprocessor(dict(images([(96, 128)] * 2),
                                         data_samples=None))
    whole = images([(96, 128)] * 2)['data_samples']
    for sample in whole:
        sample.set_metainfo(dict(ori_shape=(96, 128), scale_factor=(1., 1.),
                                 batch_input_shape=(96, 128)))
    found = heads.predict(batch['inputs'])
    batch['data_samples'] = whole
    for name in ('lin', 'boxes'):
        require_equal(found[name], alone(head_runs[name], batch))


def test_any_order_of_heads_and_of_outputs(alone, head_runs, tmp_path):
    """The last output of this classifier is the encoder's first."""
    cfg, checkpoint = head_runs['lin']
    model = dict(cfg.model, neck=dict(type='GlobalAveragePooling'),
                 backbone=dict(cfg.model.backbone, out_indices=(4, 2)),
                 head=dict(type='LinearClsHead', num_classes=8,
                           in_channels=32))
    encoder = load_model(cfg, checkpoint).model.backbone
    runs = dict(boxes=head_runs['boxes'], lin=write(
        tmp_path / 'lin', model, 'mmpretrain', encoder))
    heads = load_heads(runs)
    batch = heads.data_preprocessor(images([(96, 64)]))
    found = heads(**batch)
    for name, run in runs.items():
        require_equal(found[name], alone(run, batch))


def test_padding_is_that_of_the_head_that_needs_most(heads, head_runs,
                                                     tmp_path):
    batch = heads.data_preprocessor(images([(90, 131)]))
    assert batch['inputs'].shape[2:] == (96, 160)
    single = load_heads(dict(lin=head_runs['lin']))
    batch = single.data_preprocessor(images([(90, 131)]))
    assert batch['inputs'].shape[2:] == (90, 131)
    both = load_heads(dict(lin=head_runs['lin'], boxes=changed(
        head_runs['boxes'], tmp_path,
        **{'model.data_preprocessor.pad_size_divisor': 1})))
    assert both.data_preprocessor is both.heads['boxes'].data_preprocessor


@pytest.mark.parametrize(('name', 'value'), [
    ('pad_size_divisor', 24), ('pad_value', 114)])
def test_another_padding(head_runs, tmp_path, name, value):
    other = changed(head_runs['dec'], tmp_path, **{
        f'model.data_preprocessor.{name}': value})
    refuse(dict(boxes=head_runs['boxes'], dec=other), 'pad_size_divisor')


def test_other_encoders(alone, tmp_path):
    """A ResNet, with other outputs for the detector."""
    detector = dict(
        RETINANET, data_preprocessor=dict(
            PIXELS, type='DetDataPreprocessor', bgr_to_rgb=True,
            pad_size_divisor=16),
        backbone=dict(RESNET, out_indices=(1, 2)))
    lin = write(tmp_path / 'lin', CLASSIFIER)
    encoder = load_model(*lin).model.backbone
    boxes = write(tmp_path / 'boxes', detector, 'mmdet', encoder)
    heads = load_heads(dict(boxes=boxes, lin=lin))
    batch = heads.data_preprocessor(images([(70, 96), (64, 64)]))
    found = heads(**batch)
    require_equal(found['lin'], alone(lin, batch))
    require_equal(found['boxes'], alone(boxes, batch))

    detector['backbone']['strides'] = (1, 2, 1, 2)
    other = write(tmp_path / 'strides', detector, 'mmdet', encoder)
    refuse(dict(lin=lin, boxes=other), "'boxes'", 'settings (strides)')


def refuse(runs, *parts):
    with pytest.raises(UserError) as error:
        load_heads(runs)
    for part in parts:
        assert part in str(error.value)
    assert '\n' not in str(error.value)


@pytest.mark.parametrize('tensor', [
    'backbone.tokens', 'backbone.conv.2.running_mean'])
def test_a_fine_tuned_encoder(head_runs, tmp_path, tensor):
    other = changed(head_runs['tran'], tmp_path, tensor)
    refuse(dict(lin=head_runs['lin'], boxes=other),
           tensor.removeprefix('backbone.'), head_runs['lin'][1], other[1],
           'fine-tuned')


@pytest.mark.parametrize(('name', 'value'), [
    ('mean', [120., 120., 121.]), ('std', [60., 61., 60.]),
    ('bgr_to_rgb', False)])
def test_another_normalization(head_runs, tmp_path, name, value):
    other = changed(head_runs['boxes'], tmp_path, **{
        f'model.data_preprocessor.{name}': value})
    refuse(dict(lin=head_runs['lin'], boxes=other), head_runs['lin'][1],
           other[1], 'normalize', 'BGR' if name == 'bgr_to_rgb' else '61'
           if name == 'std' else '121')


def test_another_architecture(head_runs, tmp_path):
    resnet = write(tmp_path / 'resnet', CLASSIFIER)
    refuse(dict(tran=head_runs['tran'], lin=resnet), 'MobileFormer and ResNet',
           'type, arch', resnet[1])


def test_no_head_and_other_models(checkpoint):
    refuse({}, 'no heads')
    stored = torch.load(checkpoint, weights_only=False)['meta']['cfg']
    refuse(dict(pretrained=(Config.fromstring(stored, '.py'), checkpoint)),
           "'pretrained'", 'QBHeat', checkpoint)


def test_names(head_runs):
    for name in ('a.b', '', 'keys'):
        refuse({name: head_runs['lin']}, repr(name))


def test_heads_are_not_trained(heads):
    with pytest.raises(UserError, match='loss'):
        heads(torch.zeros(1, 3, 64, 64), mode='loss')
