# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Heads in one file: what each computes alone, with one encoder."""
from pathlib import Path

import pytest
import torch

from qbheat_mm.apis import load_encoder, load_heads
from qbheat_mm.errors import UserError
from qbheat_mm.export import Exported, load_model
from qbheat_mm.export.make_network import make_network
from qbheat_mm.export.programs import relative_difference

from ..helpers.networks import DETECTS, HEADS, RETINANET, any_size, write_run
from .checks import SIZES, check, load_runs, pictures

pytest.importorskip('mmdet')
import qbheat_mm.detection  # noqa: E402, F401

#: The shape of the weights of the encoder's first convolution.
STEM = [8, 3, 3, 3]


def options(runs, *names):
    """``--head`` of these runs."""
    return [word for name in names
            for word in ('--head', '{}={}:{}'.format(name, *runs[name][1:3]))]


def alone(runs, names, images, sizes):
    """The outputs of separate models, and the embedding."""
    networks = {name: make_network(load_model(*runs[name][::2]), True)
                for name in names}
    images = networks[names[-1]].normalized(images, sizes)
    expected = {}
    for name, network in networks.items():
        network.normalize = None
        expected |= {f'{name}.{key}': value
                     for key, value in network(images, sizes).items()}
    encoder = load_encoder(runs['classes'][2])
    return dict(expected, embedding=encoder.pool(encoder(images)))


def count_stems(path):
    """How often an ONNX network applies the encoder's first convolution."""
    import onnx
    graph = onnx.load(path).graph
    shapes = {tensor.name: [*tensor.dims] for tensor in graph.initializer}
    return sum(node.op_type == 'Conv' and shapes[node.input[1]] == STEM
               for node in graph.node)


@torch.no_grad()
@any_size
@pytest.mark.parametrize('extension, name, kind', [
    ('onnx', 'boxes', 'retinanet'), ('pt2', 'queries', 'mf_dec')])
def test_one_file_computes_what_each_head_computes_alone(
        tool, tmp_path, runs, extension, name, kind):
    if extension == 'onnx':
        for package in ('onnx', 'onnxruntime', 'onnxscript'):
            pytest.importorskip(package)
    names = 'classes', name
    printed = tool(*options(runs, *names), '--format', extension, '--out',
                   f'a.{extension}', '--with-preprocessing', '--embedding')
    assert 'images, image_sizes -> classes.logits, ' in printed
    path = str(tmp_path / f'a.{extension}')
    exported = Exported(path)
    for sizes in ([[64, 96]], [[97, 65]] * 2, [[130, 40], [33, 70], [95, 61]]):
        batch = pictures(sizes)
        found = exported(batch, sizes)
        expected = alone(runs, names, torch.from_numpy(batch),
                         torch.tensor(sizes))
        assert list(found) == [*exported.facts['outputs']] == [*expected]
        for key, value in expected.items():
            assert relative_difference(
                torch.as_tensor(found[key]), value) < 1e-5, key
    found = exported(pictures(), SIZES)  # mmdet's own boxes
    check(kind, runs[name][3], {
        key.removeprefix(f'{name}.'): value for key, value in found.items()
        if key.startswith(name)})
    assert extension == 'pt2' or count_stems(path) == 1
    facts = exported.facts['heads']
    assert facts['classes']['classes'] == [*'abcde']
    assert facts[name]['source_sha256'] != facts['classes']['source_sha256']


def test_says_that_heads_were_tested_on_different_images(
        tool, tmp_path, runs):
    heads = []
    for name, scale in (('classes', 96), ('queries', (64, 64))):
        _, config, checkpoint, _ = runs[name]
        copy = tmp_path / f'{name}.py'
        copy.write_text(Path(config).read_text() + (
            '\ntest_dataloader = dict(dataset=dict(pipeline=['
            "dict(type='LoadImageFromFile'), "
            f"dict(type='Resize', scale={scale}), dict(type='PackInputs')]))"))
        heads += ['--head', f'{name}={copy}:{checkpoint}']
    printed = tool(*heads, '--format', 'pt2', '--size', '64', '64', '--out',
                   'a.pt2')
    assert "test pipeline of head 'classes' does: Resize(scale=96)" in printed
    assert "test pipeline of head 'queries' does: Resize(scale=" in printed
    assert 'these differ' in printed


@torch.no_grad()
def test_inputs_are_those_that_some_head_needs(runs):
    assert make_network(load_runs(runs, 'classes')).inputs == ('images', )
    network = make_network(load_runs(runs, 'classes', 'queries', 'boxes'))
    assert network.inputs == ('images', 'image_sizes')
    assert network.outputs == (
        'classes.logits', 'queries.logits', 'queries.boxes', 'boxes.scores',
        'boxes.boxes', 'boxes.levels')
    assert network.stride == 32


def test_an_embedding_needs_the_last_features(runs, tmp_path):
    backbone = dict(DETECTS['backbone'], out_indices=(1, 2))
    model = dict(HEADS['boxes'], backbone=backbone,
                 neck=dict(RETINANET['neck'], in_channels=[16, 16]))
    run = write_run(tmp_path, model, 'mmdet')
    heads = load_heads(dict(boxes=run[1:3]))
    assert make_network(heads).outputs[0] == 'boxes.scores'
    with pytest.raises(UserError, match='no head takes the last features'):
        make_network(heads, embedding=True)
    with pytest.raises(UserError, match='requires Heads'):
        make_network(load_model(*runs['classes'][::2]), embedding=True)


@pytest.mark.parametrize('words, more', [
    ('give CONFIG and CHECKPOINT, or heads', []),
    ('--embedding is for --head', ['a.py', 'a.pth', '--embedding']),
    ('CONFIG does not go with --head', ['a.py', '--head', 'a=a.py:a.pth']),
    ('--part encoder does not go', ['--part', 'encoder', '--head',
                                    'a=a.py:a.pth']),
    ("'a=b.py' is not NAME=CONFIG:CHECKPOINT", ['--head', 'a=b.py']),
    ("'b.py:c.pth' is not NAME=CONFIG:CHECKPOINT", ['--head', 'b.py:c.pth']),
    ("'c.pth' (--head a) is not a file", ['--head', 'a=b.py:c.pth'])])
def test_options_that_do_not_go_together(error_of, words, more):
    assert words in error_of('--format', 'pt2', '--out', 'a.pt2', *more)


def test_weights_alone_have_no_heads(error_of, runs):
    assert '--head is for --format pt2 and onnx' in error_of(
        *options(runs, 'classes'), '--format', 'safetensors', '--out',
        'a.safetensors')


def test_heads_that_do_not_share_an_encoder(error_of, runs, tmp_path):
    to = '--format', 'pt2', '--out', 'a.pt2'
    twice = options(runs, 'boxes') * 2
    assert "'boxes' is given twice" in error_of(*twice, *to)
    torch.manual_seed(1)  # draws other tokens
    other = dict(tuned=write_run(tmp_path, HEADS['boxes'], 'mmdet'))
    line = error_of(*options(runs, 'classes'), *options(other, 'tuned'), *to)
    assert "'tuned'" in line and 'tensors differ (tokens' in line


def test_heads_that_cannot_be_exported(head_runs):
    heads = load_heads({name: head_runs[name] for name in ('lin', 'masks')})
    with pytest.raises(UserError, match="'masks': MaskRCNN cannot be"):
        make_network(heads)
