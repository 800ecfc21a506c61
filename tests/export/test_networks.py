# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Networks as programs of torch.export and as ONNX."""
import copy
import math
import shutil
import sys
from collections import Counter

import mmcv
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mmengine.registry import MODELS
from PIL import Image

from qbheat_mm.apis import load_encoder
from qbheat_mm.errors import UserError
from qbheat_mm.export import Exported, export_network, load_model
from qbheat_mm.export.make_network import make_network
from qbheat_mm.export.programs import (
    largest_difference,
    relative_difference,
)
from qbheat_mm.trained import Encoder, Normalization, checkpoint

from ..helpers.networks import (
    CLASSIFIER,
    RETINANET,
    any_size,
    weighted,
    write_run,
)
from ..helpers.tools import run
from .checks import (
    DETECTORS,
    HAS_MMDET,
    SIZES,
    check,
    close,
    namespace_of_docs,
    pictures,
    preprocess,
)

needs_mmdet = pytest.mark.skipif(not HAS_MMDET, reason='needs mmdet')
# Tracing takes most of the time, so each network is written in one format.
# The classifier is traced by the page's snippet.
PROGRAMS = DETECTORS[1:] or ('pretrained', )
ONNX = ('pretrained', *DETECTORS[:1])
# Only torch, or only ONNX Runtime and numpy, are left.
ALONE = """
import sys
sys.modules |= dict.fromkeys((
    'qbheat_mm', 'mmengine', 'mmcv', 'mmpretrain', 'mmdet', 'torchvision',
    'onnx', 'onnxscript'))
"""
WITH_TORCH = ALONE + """
import torch
for name in sys.argv[1:]:
    program = torch.export.load(f'{name}.pt2').module()
    inputs = torch.load(f'{name}.inputs')
    with torch.no_grad():
        torch.save(program(*inputs.values()), f'{name}.pt2.outputs')
"""
WITH_ONNX = ALONE + """
sys.modules['torch'] = None
import numpy as np, onnxruntime
for name in sys.argv[1:]:
    session = onnxruntime.InferenceSession(f'{name}.onnx')
    names = [output.name for output in session.get_outputs()]
    outputs = session.run(names, dict(np.load(f'{name}.npz')))
    np.savez(f'{name}.onnx.outputs.npz', **dict(zip(names, outputs)))
"""


def load(name, run):
    """The encoder of a pre-training, or the model of another run."""
    cfg, _, checkpoint, _ = run
    return load_encoder(checkpoint) if name == 'pretrained' else (
        load_model(cfg, checkpoint))


@pytest.fixture(scope='session')
def export(request, tmp_path_factory):
    """A function that exports a network once."""
    folder = tmp_path_factory.mktemp('exports')
    done = {}

    def export_once(name, extension):
        if extension == 'onnx':
            for package in ('onnx', 'onnxruntime', 'onnxscript'):
                pytest.importorskip(package)
        out = str(folder / f'{name}.{extension}')
        if out not in done:
            done[out] = export_network(
                load(name, request.getfixturevalue(name)), out,
                preprocessing=name in DETECTORS)
        return out, done[out]

    export_once.folder = folder
    return export_once


def inputs_of(name, model):
    """The inputs of an exported network, as arrays."""
    batch = pictures()
    if name in DETECTORS:
        return dict(images=batch, image_sizes=np.array(SIZES))
    return dict(images=preprocess(model, batch)[0].numpy())


@any_size
def test_programs_run_with_torch_alone(export, request):
    models = {name: request.getfixturevalue(name)[3] for name in PROGRAMS}
    for name, model in models.items():
        export(name, 'pt2')
        torch.save({key: torch.from_numpy(value)
                    for key, value in inputs_of(name, model).items()},
                   export.folder / f'{name}.inputs')
    run(sys.executable, '-c', WITH_TORCH, *PROGRAMS, cwd=export.folder)
    for name, model in models.items():
        check(name, model, torch.load(export.folder / f'{name}.pt2.outputs'))


def test_onnx_runs_with_onnxruntime_alone(export, request):
    models = {name: request.getfixturevalue(name)[3] for name in ONNX}
    for name, model in models.items():
        export(name, 'onnx')
        np.savez(export.folder / f'{name}.npz', **inputs_of(name, model))
    run(sys.executable, '-c', WITH_ONNX, *ONNX, cwd=export.folder)
    for name, model in models.items():
        check(name, model,
              dict(np.load(export.folder / f'{name}.onnx.outputs.npz')))


def test_onnx_has_few_nodes(export):
    """Those of a block, three lite ones, a stem and a 1x1 convolution."""
    onnx = pytest.importorskip('onnx')
    graph = onnx.load(export('pretrained', 'onnx')[0]).graph
    kinds = Counter(node.op_type for node in graph.node)
    assert len(graph.node) <= 160, kinds
    assert kinds['Softmax'] == 3  # one for each attention
    # Of heads and keys; ONNX Runtime merges them into the products.
    assert kinds['Transpose'] <= 9
    # A depthwise convolution with two outputs a channel became two.
    assert kinds['Conv'] == 2 + 3 * 2 + 4 + 2


@needs_mmdet
def test_axes_have_names(export):
    onnx = pytest.importorskip('onnx')
    out, facts = export('mf_dec', 'onnx')
    assert 0 < facts['difference'] < 1e-4
    axes = {}
    for value in onnx.load(out).graph.input:
        axes[value.name] = [side.dim_param or side.dim_value
                            for side in value.type.tensor_type.shape.dim]
    assert axes == dict(images=['batch', 'height', 'width', 3],
                        image_sizes=['batch', 2])


@torch.no_grad()
@pytest.mark.parametrize('name', ['pretrained', 'classifier', *DETECTORS])
def test_preprocessing_is_that_of_the_toolbox(name, request):
    """RGB and BGR, and whatever the padding contains."""
    run = request.getfixturevalue(name)
    sizes = SIZES if name in DETECTORS else None
    images, _ = preprocess(run[3], pictures(), sizes)
    more = [torch.tensor(sizes)] if sizes else []
    expected = make_network(load(name, run))(images, *more)
    found = make_network(load(name, run), preprocessing=True)(
        torch.from_numpy(pictures()), *more)
    for key, value in expected.items():
        close(found[key], value)


@torch.no_grad()
@pytest.mark.parametrize('name', DETECTORS)
def test_images_without_padding(name, request):
    """As if they filled their batch."""
    model = load(name, request.getfixturevalue(name))
    images = torch.randn(2, 3, 140, 133)
    found = make_network(model, padded=False)(images)
    expected = make_network(model)(images, torch.tensor([[140, 133]] * 2))
    for key, value in expected.items():
        close(found[key], value)


@needs_mmdet
@any_size
def test_a_file_that_knows_no_padding(mf_dec, tmp_path):
    out = str(tmp_path / 'a.pt2')
    facts = export_network(load('mf_dec', mf_dec), out, padded=False)
    assert facts['inputs'] == ('images', )
    with pytest.raises(UserError, match='unpadded'):
        Exported(out)(torch.zeros(1, 3, 64, 64), [[64, 60]])


@torch.no_grad()
@any_size
def test_a_classifier_as_the_page_shows(classifier, tmp_path, monkeypatch):
    pytest.importorskip('onnxscript')
    monkeypatch.chdir(tmp_path)
    network = classifier[3]
    black, _ = preprocess(network, np.zeros((1, 224, 224, 3), np.uint8))
    for out, words in (('model.onnx', 'InferenceSession'),
                       ('model.pt2', 'torch.export.load')):
        facts = export_network(load('classifier', classifier), out,
                               preprocessing=True)
        assert facts['classes'] == tuple('abcde')
        found = namespace_of_docs(words)['logits']
        close(torch.as_tensor(found), network(black, mode='tensor'))
    with pytest.raises(UserError, match='at least 33'):
        Exported(out)(np.zeros((1, 64, 32, 3), np.uint8))


@needs_mmdet
@pytest.mark.mmdet
@pytest.mark.parametrize('size, padding, shape', [
    (None, [], (96, 128)), ((96, 160), [], (96, 160)),
    (None, [dict(type='PadToScale')], (96, 160))])
def test_images_are_prepared_as_in_tests(gfl, tmp_path, size, padding, shape):
    """By the page's code from the file's facts, and by the test pipeline."""
    cfg = gfl[0].copy()
    cfg.test_dataloader = dict(dataset=dict(pipeline=[
        dict(type='LoadImageFromFile'),
        dict(type='Resize', scale=(144, 96), keep_ratio=True), *padding,
        dict(type='LoadAnnotations'), dict(type='PackDetInputs')]))
    cfg.model.data_preprocessor.pad_size_divisor = 32
    model = load_model(cfg, gfl[2])
    export_network(model, tmp_path / 'a.onnx', size, preprocessing=True)
    facts = Exported(str(tmp_path / 'a.onnx')).facts
    y, x = np.mgrid[:200, :260]
    pixels = np.stack([x * 0.9, y, (x + y) / 2], 2).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / 'a.png')
    found, (height, width), ratio = namespace_of_docs('def prepare(')[
        'prepare'](tmp_path / 'a.png', facts)
    assert found.shape[1:3] == shape
    resized = mmcv.imrescale(pixels, (144, 96))
    assert (height, width) == resized.shape[:2]
    assert ratio == pytest.approx(height / 200, rel=0.01)
    np.testing.assert_allclose(found[0, :height, :width], resized, atol=3)
    Exported(str(tmp_path / 'a.onnx'))(found, [[height, width]])


def test_other_photographs_are_prepared_too(tmp_path):
    """Of 16 bits, upright ones on a wide canvas, and for one of the heads."""
    prepare = namespace_of_docs('def prepare(')['prepare']
    resize = dict(type='Resize', scale=(144, 96))
    facts = dict(size=(96, 160), heads=dict(boxes=dict(
        transforms=[resize], pad_size_divisor=32)))
    gray = np.tile(np.linspace(0, 65535, 200).astype(np.uint16), (300, 1))
    Image.fromarray(gray).save(tmp_path / 'a.png')
    found, (height, width), ratio = prepare(
        tmp_path / 'a.png', facts | facts['heads']['boxes'])
    assert (height, width) == (96, 64) and ratio == 0.32
    expected = mmcv.imresize((gray >> 8).astype(np.uint8), (width, height))
    np.testing.assert_allclose(found[0, :, :width, 0], expected, atol=3)
    assert not found[0, :, width:].any()


def test_outputs_out_of_order_have_their_own_names(tmp_path):
    """mmpretrain's networks return them from the first to the last."""
    backbone = MODELS.build(dict(
        type='mmpretrain.ResNet', depth=18, out_indices=(3, 1)))
    backbone.eval()
    encoder = Encoder(backbone, Normalization())
    facts = export_network(encoder, tmp_path / 'a.pt2', (64, 64))
    shapes = {}
    for name, output in Exported(str(tmp_path / 'a.pt2'))(
            np.zeros((1, 3, 64, 64), np.float32)).items():
        shapes[name] = output.shape[1:]
    assert facts['outputs'] == ('stage_1', 'stage_3')
    assert shapes == dict(stage_1=(128, 8, 8), stage_3=(512, 2, 2))


@pytest.mark.mmdet
def test_other_anchors_and_sizes_are_told(retinanet, tmp_path, monkeypatch):
    """Any fits the weights."""
    messages = []
    monkeypatch.setattr(checkpoint, 'print_log',
                        lambda message, *args: messages.append(message))
    cfg = retinanet[0].copy()
    pipeline = [dict(type='LoadImageFromFile'),
                dict(type='Resize', scale=(96, 96)),
                dict(type='PackDetInputs')]
    cfg.test_dataloader = dict(dataset=dict(pipeline=pipeline))
    content = torch.load(retinanet[2], weights_only=False)
    content['meta']['cfg'] = cfg.pretty_text
    torch.save(content, tmp_path / 'a.pth')
    file = str(tmp_path / 'a.pth')
    load_model(cfg, file)
    load_model(cfg, retinanet[2])  # states no pipeline
    assert not messages
    cfg.test_dataloader.dataset.pipeline[1].scale = (64, 64)
    load_model(cfg, file)
    assert 'another test pipeline' in messages.pop()
    cfg.test_dataloader.dataset.pipeline[1].scale = (96, 96)
    cfg.model.bbox_head.anchor_generator.octave_base_scale = 7
    load_model(cfg, file)
    message, = messages
    assert 'another anchor_generator' in message and file in message


def test_images_are_not_padded_unless_sizes_are_given(export):
    detect, images = Exported(export('mf_dec', 'onnx')[0]), pictures()
    whole = detect(images)
    again = detect(images, [images.shape[1:3]] * 2)
    np.testing.assert_array_equal(whole['logits'], again['logits'])


def test_a_fixed_size(pretrained, tmp_path):
    encoder, out = load_encoder(pretrained[2]), str(tmp_path / 'a.pt2')
    export_network(encoder, out, size=(48, 33))
    run = Exported(out)
    image = torch.randn(2, 3, 48, 33)
    assert run(image)['features'].shape == (2, 32, 3, 3)
    with pytest.raises(UserError, match='takes 48x33'):
        run(torch.randn(1, 3, 64, 64))


def test_a_file_that_computes_something_else_is_refused(
        pretrained, tmp_path, monkeypatch):
    right_export = torch.export.export

    def wrong(network, *args, **options):
        right = network.decode
        network.decode = lambda *args: {
            name: value * 1.01 if name == 'tokens' else value
            for name, value in right(*args).items()}
        return right_export(network, *args, **options)

    monkeypatch.setattr('torch.export.export', wrong)
    with pytest.raises(UserError, match='1.0e-02 .* tokens'):
        export_network(load_encoder(pretrained[2]), tmp_path / 'a.pt2',
                       size=(33, 48))
    assert not list(tmp_path.iterdir())
    for found in (torch.full((2, ), torch.nan), torch.ones(1)):
        assert relative_difference(found, torch.ones(2)) == math.inf


class NormOfSum(torch.nn.Module):
    """Defines BN behind a convolution and calls it on a sum, as RepViT."""

    def __init__(self):
        super().__init__()
        self.wide = torch.nn.Conv2d(3, 8, 5, 4, 2)
        self.narrow = torch.nn.Conv2d(3, 8, 1, 4)
        self.norm = torch.nn.BatchNorm2d(8)

    def forward(self, x):
        return self.norm(self.wide(x) + self.narrow(x))


def test_bn_is_folded_only_where_it_follows_its_convolution(tmp_path):
    encoder = Encoder(weighted(NormOfSum()), Normalization())
    facts = export_network(encoder, tmp_path / 'a.pt2', (64, 64))
    assert facts['difference'] < 1e-4


def test_a_damaged_file_is_named(tmp_path):
    torch.save(dict(a=1), tmp_path / 'a.pt2')
    for name in ('a.pt2', 'b.onnx'):
        with pytest.raises(UserError, match=name):
            Exported(str(tmp_path / name))


@torch.no_grad()
def test_lin_and_the_classifier_of_v1(tmp_path):
    for neck, in_channels in (
            ([dict(type='PoolWithToken'),
              dict(type='ClsBatchNormNeck', input_features=48)], 48),
            (dict(type='MobileFormerV1Neck', in_channels=32, token_dims=16,
                  mid_channels=12), 12)):
        model = copy.deepcopy(CLASSIFIER)
        model.update(neck=neck)
        model['head']['in_channels'] = in_channels
        cfg, _, checkpoint, network = write_run(tmp_path, model)
        images, _ = preprocess(network, pictures())
        close(make_network(load_model(cfg, checkpoint))(images)['logits'],
              network(images, mode='tensor'))


def test_networks_that_cannot_be_exported_name_the_part_that_can(tmp_path):
    head = dict(type='MultiTaskHead', in_channels=16, task_heads=dict(
        one=dict(type='LinearClsHead', num_classes=2)))
    cfg, _, checkpoint, _ = write_run(tmp_path, dict(CLASSIFIER, head=head))
    with pytest.raises(UserError, match='Head.*--part encoder'):
        export_network(load_model(cfg, checkpoint), tmp_path / 'a.pt2')


@needs_mmdet
def test_boxes_are_clipped_only_if_the_detector_clips_them(tmp_path):
    model = copy.deepcopy(RETINANET)
    model['bbox_head']['bbox_coder']['clip_border'] = False
    cfg, _, checkpoint, _ = write_run(tmp_path, model, 'mmdet')
    boxes = make_network(load_model(cfg, checkpoint))(
        torch.randn(1, 3, 64, 64), torch.tensor([[64, 64]]))['boxes']
    assert boxes.min() < 0 or boxes.max() > 64


def test_an_output_appears_once(pretrained):
    with pytest.raises(UserError, match='features, features'):
        make_network(load_encoder(pretrained[2], None, (4, 4)))


def test_a_run_counts_the_classes_of_its_folders(classifier):
    cfg, _, checkpoint, network = classifier
    given = copy.deepcopy(cfg)
    given.count_classes = True
    given.model.head.num_classes = 2  # in the file
    loaded = load_model(given, checkpoint)
    weights = loaded.model.state_dict()
    assert not any(module.training for module in loaded.model.modules())
    loaded.model.train()
    traced = make_network(loaded)
    assert not any(module.training for module in traced.modules())
    assert all(torch.equal(tensor, weights[name])
               for name, tensor in network.state_dict().items())
    given.count_classes = False
    with pytest.raises(UserError, match='epoch_1.pth'):
        load_model(given, checkpoint)


@pytest.mark.parametrize('name', ONNX)
def test_smaller_files_as_the_page_shows(name, export, tmp_path, monkeypatch):
    """By 8-bit weights and by float16, with a small difference."""
    pytest.importorskip('onnxruntime')
    out, facts = export(name, 'onnx')
    monkeypatch.chdir(tmp_path)
    shutil.copy(out, 'model.onnx')
    used = namespace_of_docs('quantize_dynamic')
    used['quantize_dynamic']('model.onnx', 'all.onnx')
    images = pictures() if facts['pictures'] else (
        torch.randn(2, 3, 64, 96, generator=torch.Generator().manual_seed(0)))
    expected = {key: torch.as_tensor(value)
                for key, value in Exported(out)(images).items()}
    for file, limit in (('half.onnx', 5e-3), ('quantized.onnx', 0.2),
                        ('all.onnx', 0.2)):
        difference, _ = largest_difference(Exported(file)(images), expected)
        assert 0 < difference < limit


class Operations(torch.nn.Module):
    """Operations of encoders that these tests don't export."""

    def forward(self, x):
        mask = torch.tensor([[True, False], [True, True]])
        return (F.scaled_dot_product_attention(x, x, x, mask, scale=0.3),
                F.softmax(x, 1), F.gelu(x, approximate='tanh'))


def test_operations_with_translations_of_ours(tmp_path):
    runtime = pytest.importorskip('onnxruntime')
    pytest.importorskip('onnxscript')
    from qbheat_mm.export.onnx_graph import to_onnx
    x = torch.randn(1, 3, 2, 4)
    program = torch.export.export(Operations(), (x, ))
    to_onnx(program, input_names=['x']).save(tmp_path / 'a.onnx')
    session = runtime.InferenceSession(tmp_path / 'a.onnx')
    for found, expected in zip(session.run(None, dict(x=x.numpy())),
                               Operations()(x), strict=True):
        torch.testing.assert_close(torch.from_numpy(found), expected)
