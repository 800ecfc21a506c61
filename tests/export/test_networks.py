# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Networks as programs of torch.export and as ONNX, run where they go."""
import copy
import dataclasses
import importlib.util
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import torch
from packaging.requirements import Requirement

from qbheat_mm.apis import load_encoder
from qbheat_mm.errors import UserError
from qbheat_mm.export import (
    Exported,
    export_network,
    load_model,
    trace_network,
)
from qbheat_mm.export.graphs import make_graph

from .conftest import (
    CLASSIFIER,
    RETINANET,
    any_size,
    write_run,
)

HAS_MMDET = importlib.util.find_spec('mmdet') is not None
#: Tracing takes most of the time: each network in one format, one in both.
#: The classifier is traced by the page's snippet.
PROGRAMS = ('pretrained', *(('retinanet', ) if HAS_MMDET else ()))
ONNX = ('pretrained', *(('mf_dec', ) if HAS_MMDET else ()))
FROM_PICTURES = ('mf_dec', 'retinanet')
# A process that can import the standard library and what is named alone.
ALONE = """
import sys

class Alone:

    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        top = name.partition('.')[0]
        if top in {allowed!r} or top.startswith('_sysconfigdata'):
            return self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Alone, sys.meta_path)
"""
WITH_TORCH = ALONE + """
import torch
for name in {names!r}:
    program = torch.export.load(f'{{name}}.pt2').module()
    inputs = torch.load(f'{{name}}.inputs')
    with torch.no_grad():
        torch.save(program(*inputs.values()), f'{{name}}.pt2.outputs')
"""
WITH_ONNX = ALONE + """
import numpy as np, onnxruntime
for name in {names!r}:
    session = onnxruntime.InferenceSession(f'{{name}}.onnx')
    names = [output.name for output in session.get_outputs()]
    outputs = session.run(names, dict(np.load(f'{{name}}.npz')))
    np.savez(f'{{name}}.onnx.outputs.npz', **dict(zip(names, outputs)))
"""


ROOT = Path(__file__).parents[2]
SIZES = [[67, 93], [41, 80]]  # of the images of a batch


@pytest.fixture(scope='session')
def traced(request):
    """A function that traces a network once."""
    done = {}

    def trace(name):
        if name not in done:
            cfg, _, checkpoint, _ = request.getfixturevalue(name)
            source = load_encoder(checkpoint) if name == 'pretrained' else (
                load_model(cfg, checkpoint))
            done[name] = trace_network(
                source, preprocessing=name in FROM_PICTURES)
        return done[name]

    return trace


@pytest.fixture(scope='session')
def export(traced, tmp_path_factory):
    """A function that writes a network in a format once."""
    folder = tmp_path_factory.mktemp('exports')
    done = {}

    def write(name, ending):
        if ending == 'onnx':
            for package in ('onnx', 'onnxruntime', 'onnxscript'):
                pytest.importorskip(package)
        if (name, ending) not in done:
            done[name, ending] = traced(name).write(
                folder / f'{name}.{ending}')
        return done[name, ending]

    write.folder = folder
    return write


def pictures(sizes=SIZES):
    """A batch of RGB pictures, (B, H, W, 3), with noise in its padding."""
    shape = np.max(sizes, axis=0)
    return np.random.default_rng(0).integers(
        0, 256, (len(sizes), *shape, 3), dtype=np.uint8)


def preprocess(model, batch, sizes=None):
    """Normalize pictures, and pad them, as the toolbox does.

    Returns:
        tuple: The images, (B, 3, H, W), and mmdet's data samples.
    """
    sizes = sizes or [batch.shape[1:3]] * len(batch)
    images = [torch.from_numpy(image[:h, :w, ::-1].copy()).permute(2, 0, 1)
              for image, (h, w) in zip(batch, sizes)]  # BGR, as mmcv reads
    samples = None
    if type(model.data_preprocessor).__name__ == 'DetDataPreprocessor':
        from mmdet.structures import DetDataSample
        samples = [DetDataSample(metainfo=dict(
            img_shape=tuple(size), ori_shape=tuple(size),
            scale_factor=(1., 1.))) for size in sizes]
    else:
        images = torch.stack(images)
    data = model.data_preprocessor(dict(inputs=images, data_samples=samples))
    return data['inputs'], data['data_samples']


def inputs_of(name, ending, export, network):
    """What an exported network gets, in arrays."""
    model, batch = network(name), pictures()
    sizes = SIZES if name in ('mf_dec', 'retinanet') else None
    images = batch
    if not export(name, ending).facts['pictures']:
        images = preprocess(model, batch, sizes)[0].numpy()
    return {'images': images, **(
        {'image_sizes': np.array(sizes)} if sizes else {})}


@pytest.fixture
def network(request):
    """A function that gives the original network."""
    return lambda name: request.getfixturevalue(name)[3]


@torch.no_grad()
def check(name, model, outputs):
    """Compare outputs with what the toolbox's own ways give."""
    outputs = {key: torch.as_tensor(value) for key, value in outputs.items()}
    batch = pictures()
    if name == 'pretrained':
        images, _ = preprocess(model, batch)
        assert list(outputs) == ['features', 'tokens']
        close(outputs['features'], model.extract_feat(images)[0])
        assert outputs['tokens'].shape == (2, 3, 16)
    elif name == 'retinanet':
        images, samples = preprocess(model, batch, SIZES)
        compare_detections(model, images, samples, outputs)
    else:
        images, samples = preprocess(model, batch, SIZES)
        found = model.predict(images, samples, rescale=False)
        scores, labels = outputs['logits'].softmax(-1)[..., :-1].max(-1)
        for i, sample in enumerate(found):
            best, order = scores[i].topk(len(scores[i]))
            found_i = sample.pred_instances
            close(best, found_i.scores)
            assert torch.equal(labels[i][order], found_i.labels)
            close(outputs['boxes'][i][order], found_i.bboxes)


def close(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)


def importable(*packages):
    """Top-level modules of packages and of all that they require.

    Nothing else is there after ``pip install PACKAGES``.
    """
    wanted, seen = list(packages), set()
    while wanted:
        name = re.sub('[-_.]+', '-', wanted.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            required = metadata.requires(name) or ()
        except metadata.PackageNotFoundError:  # as CUDA's, on a CPU
            continue
        wanted += [
            requirement.name for requirement in map(Requirement, required)
            if requirement.marker is None
            or requirement.marker.evaluate(dict(extra=''))]
    return {
        module for module, names in metadata.packages_distributions().items()
        if seen & {re.sub('[-_.]+', '-', name).lower() for name in names}
    } | sys.stdlib_module_names


def run_elsewhere(script, folder, names, *packages):
    """Run a script in a process that can import nothing but packages."""
    allowed = importable(*packages)
    assert not allowed & {'mmengine', 'mmcv', 'mmpretrain', 'mmdet',
                          'qbheat_mm', 'torchvision', 'onnx'}
    done = subprocess.run(
        [sys.executable, '-c', script.format(allowed=allowed, names=names)],
        cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@any_size
def test_programs_run_where_there_is_torch_alone(export, network):
    for name in PROGRAMS:
        inputs = inputs_of(name, 'pt2', export, network)
        torch.save({key: torch.from_numpy(value)
                    for key, value in inputs.items()},
                   export.folder / f'{name}.inputs')
    run_elsewhere(WITH_TORCH, export.folder, PROGRAMS, 'torch')
    for name in PROGRAMS:
        check(name, network(name),
              torch.load(export.folder / f'{name}.pt2.outputs'))


def test_onnx_runs_where_there_is_onnxruntime_alone(export, network):
    for name in ONNX:
        np.savez(export.folder / f'{name}.npz',
                 **inputs_of(name, 'onnx', export, network))
    run_elsewhere(WITH_ONNX, export.folder, ONNX, 'onnxruntime', 'numpy')
    for name in ONNX:
        check(name, network(name),
              dict(np.load(export.folder / f'{name}.onnx.outputs.npz')))


@pytest.mark.skipif(not HAS_MMDET, reason='needs mmdet')
def test_sides_have_names(export):
    onnx = pytest.importorskip('onnx')
    written = export('mf_dec', 'onnx')
    assert written.difference < 1e-4
    model = onnx.load(written.out)
    assert {value.name: [side.dim_param or side.dim_value
                         for side in value.type.tensor_type.shape.dim]
            for value in model.graph.input} == dict(
                images=['batch', 'height', 'width', 3],
                image_sizes=['batch', 2])


def compare_detections(model, images, samples, outputs):
    """What docs/export.md makes of RetinaNet's outputs, and mmdet."""
    outputs = {key: value.numpy() for key, value in outputs.items()}
    detect = namespace_of_docs('def keep_best(')['keep_best']
    for i, sample in enumerate(model.predict(images, samples, rescale=False)):
        boxes, scores, labels = detect(
            outputs['scores'][i], outputs['boxes'][i], outputs['levels'],
            nms_pre=20, max_per_img=10)
        wanted = sample.pred_instances
        assert len(wanted) == 10
        close(torch.from_numpy(scores), wanted.scores)
        close(torch.from_numpy(boxes), wanted.bboxes)
        assert labels.tolist() == wanted.labels.tolist()


def namespace_of_docs(words):
    """What the block of docs/export.md defines that holds some words."""
    text = (ROOT / 'docs/export.md').read_text(encoding='utf-8')
    code, = (block for block in re.findall(r'```python\n(.*?)```', text, re.S)
             if words in block)
    namespace = {}
    exec(code, namespace)
    return namespace


@torch.no_grad()
@any_size
def test_a_classifier_as_the_page_shows(classifier, tmp_path, monkeypatch):
    cfg, _, checkpoint, network = classifier
    written = export_network(load_model(cfg, checkpoint),
                             tmp_path / 'model.pt2', preprocessing=True)
    assert written.facts['classes'] == tuple('abcde')
    assert {text[:2] for text in written.compared} == {'1x', '3x'}
    monkeypatch.chdir(tmp_path)
    found = namespace_of_docs('torch.export.load')['logits']
    black, _ = preprocess(network, np.zeros((1, 224, 224, 3), np.uint8))
    close(found, network(black, mode='tensor'))
    classify = Exported(written.out)
    with pytest.raises(UserError, match='at least 33'):
        classify(np.zeros((1, 64, 32, 3), np.uint8))


@pytest.mark.skipif(not HAS_MMDET, reason='needs mmdet')
def test_image_sizes_are_within_the_batch(export):
    detect, images = Exported(export('mf_dec', 'onnx').out), pictures()
    for sizes in ([[67, 93]], [[68, 93], [1, 1]], [[0, 9], [9, 9]]):
        with pytest.raises(UserError, match='image_sizes'):
            detect(images, sizes)
    whole = detect(images)
    again = detect(images, [images.shape[1:3]] * 2)
    np.testing.assert_array_equal(whole['logits'], again['logits'])


def test_a_fixed_size_is_the_only_one(pretrained, tmp_path):
    encoder = load_encoder(pretrained[2])
    run = Exported(export_network(
        encoder, tmp_path / 'a.pt2', size=(48, 33)).out)
    image = torch.randn(2, 3, 48, 33)
    assert run(image)['features'].shape == (2, 32, 3, 3)
    array = image.numpy()[..., ::-1]  # a view
    np.testing.assert_allclose(run(array)['features'],
                               run(array.copy())['features'])
    with pytest.raises(UserError, match='takes 48x33'):
        run(torch.randn(1, 3, 64, 64))
    with pytest.raises(UserError, match='--size 16 33.*more than 16 pixels'):
        trace_network(encoder, size=(16, 33))


@any_size
def test_a_file_that_computes_something_else_is_refused(traced, tmp_path):
    good = traced('pretrained')

    class Wrong(torch.nn.Module):

        def forward(self, images):
            outputs = good.graph.module(images)
            return {**outputs, 'tokens': outputs['tokens'] * 1.01}

    bad = dataclasses.replace(
        good, graph=dataclasses.replace(good.graph, module=Wrong()))
    with pytest.raises(UserError, match='differs from PyTorch by 9.9e-03 .*'
                                        'tokens'):
        bad.write(tmp_path / 'a.pt2')
    assert not list(tmp_path.iterdir())


def test_a_damaged_file_is_named(tmp_path):
    torch.save(dict(a=1), tmp_path / 'a.pt2')
    with pytest.raises(UserError, match='a.pt2'):
        Exported(str(tmp_path / 'a.pt2'))


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
        graph = make_graph(load_model(cfg, checkpoint))
        images, _ = preprocess(network, pictures())
        close(graph.module(images)['logits'], network(images, mode='tensor'))


def test_networks_that_cannot_be_exported_name_the_part_that_can(tmp_path):
    head = dict(type='MultiTaskHead', in_channels=16, task_heads=dict(
        one=dict(type='LinearClsHead', num_classes=2)))
    runs = [write_run(tmp_path, dict(CLASSIFIER, head=head))]
    if HAS_MMDET:
        model = copy.deepcopy(RETINANET)
        model['bbox_head'].update(
            type='ATSSHead', norm_cfg=dict(type='BN'), anchor_generator=dict(
                type='AnchorGenerator', octave_base_scale=8,
                scales_per_octave=1, ratios=[1.], strides=[16, 32]))
        (tmp_path / 'atss').mkdir()
        runs.append(write_run(tmp_path / 'atss', dict(model, type='ATSS'),
                              'mmdet'))
    for cfg, _, checkpoint, _ in runs:
        with pytest.raises(UserError, match='Head.*--part encoder'):
            export_network(load_model(cfg, checkpoint), tmp_path / 'a.pt2')


@pytest.mark.skipif(not HAS_MMDET, reason='needs mmdet')
def test_boxes_are_clipped_only_if_the_detector_clips_them(tmp_path):
    model = copy.deepcopy(RETINANET)
    model['bbox_head']['bbox_coder']['clip_border'] = False
    cfg, _, checkpoint, _ = write_run(tmp_path, model, 'mmdet')
    source = load_model(cfg, checkpoint)
    boxes = make_graph(source).module(
        torch.randn(1, 3, 64, 64), torch.tensor([[64, 64]]))['boxes']
    assert boxes.min() < 0 or boxes.max() > 64


def test_an_output_is_given_once(pretrained):
    with pytest.raises(UserError, match='features, features'):
        trace_network(load_encoder(pretrained[2], None, (4, 4)))


def test_a_run_counts_the_classes_of_its_folders(classifier):
    cfg, _, checkpoint, network = classifier
    given = copy.deepcopy(cfg)
    given.count_classes = True
    given.model.head.num_classes = 2  # of the file
    weights = load_model(given, checkpoint).model.state_dict()
    assert all(torch.equal(tensor, weights[name])
               for name, tensor in network.state_dict().items())
    given.count_classes = False
    with pytest.raises(UserError, match='epoch_1.pth'):
        load_model(given, checkpoint)
