# Copyright (c) QB-Heat MM authors. All rights reserved.
"""ONNX graphs by the rules of those who read them.

TensorRT's are from its parser's list of operators. ONNX Runtime's shape
inference reads axes that are an input for sums, means and products alone.
"""
from collections import Counter

import numpy as np
import pytest
import torch
from mmpretrain.registry import MODELS

from qbheat_mm.apis import load_encoder
from qbheat_mm.export import Exported, export_network, load_model
from qbheat_mm.export.programs import largest_difference
from qbheat_mm.trained import Encoder, Normalization

from ..helpers.networks import (
    ARCH,
    CLASSIFIER,
    MOBILE_FORMER,
    weighted,
    write_run,
)
from .checks import load_runs

onnx = pytest.importorskip('onnx')
pytest.importorskip('onnxscript')
pytest.importorskip('onnxruntime')

V1 = dict(ARCH, groups=2, final_bridge=True)
ENCODERS = dict(
    mobile_former=dict(MOBILE_FORMER, out_indices=(-2, -1)),
    mobile_former_v1=dict(MOBILE_FORMER, arch=V1, out_indices=(-2, -1)),
    mobilenet_v3=dict(type='TimmEncoder', name='mobilenetv3_small_050'),
    efficientnet=dict(type='TimmEncoder', name='test_efficientnet'),
    convnext=dict(type='TimmEncoder', name='test_convnext'),
    resnet=dict(type='ResNet', depth=18, base_channels=4, stem_channels=4))
OTHERS = ('pretrained', 'lin', 'classifier', 'mf_dec', 'retinanet', 'heads')
#: Operators of ours that TensorRT reads, in the types below.
TENSORRT = {
    'Add', 'And', 'AveragePool', 'BatchNormalization', 'Cast', 'Clip',
    'Concat', 'Constant', 'ConstantOfShape', 'Conv', 'Cos', 'CumSum', 'Div',
    'Equal', 'Erf', 'Exp', 'Expand', 'Flatten', 'Gather', 'Gemm',
    'GlobalAveragePool', 'Greater', 'GreaterOrEqual', 'HardSwish', 'Identity',
    'LayerNormalization', 'Less', 'LessOrEqual', 'MatMul', 'Max', 'MaxPool',
    'Min', 'Mod', 'Mul', 'Neg', 'Not', 'Or', 'Pad', 'Pow', 'Range',
    'ReduceMean', 'ReduceSum', 'Relu', 'Reshape', 'Resize', 'Shape',
    'Sigmoid', 'Sin', 'Slice', 'Softmax', 'Split', 'Sqrt', 'Squeeze', 'Sub',
    'Tanh', 'Tile', 'Transpose', 'Unsqueeze', 'Where'}
TYPES = {onnx.TensorProto.FLOAT, onnx.TensorProto.INT32,
         onnx.TensorProto.INT64, onnx.TensorProto.BOOL}
#: Inputs that must be constants, by operator.
CONSTANT = dict(CumSum=1, ReduceMean=1, ReduceSum=1, Slice=3, Squeeze=1,
                Unsqueeze=1)


def build(name):
    with torch.no_grad():
        backbone = weighted(MODELS.build(ENCODERS[name]))
    return Encoder(backbone, Normalization((120., 110., 100.), (60., 50., 55.),
                                           rgb=name != 'resnet'))


@pytest.fixture(scope='module')
def files(request, tmp_path_factory):
    """A function that exports each network once."""
    folder, done = tmp_path_factory.mktemp('graphs'), set()

    def load(name):
        if name in ENCODERS:
            return build(name)
        if name == 'pretrained':
            return load_encoder(request.getfixturevalue(name)[2])
        if name == 'heads':
            return load_runs(request.getfixturevalue('runs'), 'classes',
                             'boxes', 'queries')
        if name == 'lin':
            model = dict(CLASSIFIER, neck=[
                dict(type='PoolWithToken'),
                dict(type='ClsBatchNormNeck', input_features=48)])
            model['head'] = dict(model['head'], in_channels=48)
            run = write_run(folder, model)
        else:
            run = request.getfixturevalue(name)
        return load_model(*run[::2])

    def export(name):
        out = folder / f'{name}.onnx'
        if name not in done:
            size = (64, 64) if name in ENCODERS else None
            export_network(load(name), out, size,
                           preprocessing=name != 'pretrained')
            done.add(name)
        return str(out)

    return export


def elements(model):
    """The element type of each value, by name."""
    graph = model.graph
    found = {}
    for value in (*graph.input, *graph.value_info, *graph.output):
        found[value.name] = value.type.tensor_type.elem_type
    for tensor in graph.initializer:
        found[tensor.name] = tensor.data_type
    return found


def refused(model):
    """What TensorRT and ONNX Runtime's shape inference refuse."""
    kinds, graph = elements(model), model.graph
    constants = {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == 'Constant':
            constants.update(node.output)
    for node in graph.node:
        if node.op_type not in TENSORRT:
            yield f'{node.op_type} ({node.name})'
        for value in node.input:
            if kinds.get(value) == onnx.TensorProto.UINT8 and (
                    node.op_type != 'Cast'):
                yield f'uint8 into {node.op_type} ({node.name})'
        axes = node.input[CONSTANT.get(node.op_type, len(node.input)):]
        if axes and axes[0] not in constants:
            yield f'computed axes of {node.op_type} ({node.name})'
    for name, kind in kinds.items():
        if kind not in TYPES and name != 'images':
            yield f'{name} of type {onnx.TensorProto.DataType.Name(kind)}'


@pytest.mark.parametrize('name', [*ENCODERS, *OTHERS])
def test_no_reader_refuses_it(name, files):
    if name in ('mf_dec', 'retinanet', 'heads'):
        pytest.importorskip('mmdet')
    file = files(name)
    onnx.checker.check_model(file, full_check=True)
    model = onnx.shape_inference.infer_shapes(
        onnx.load(file), check_type=True, strict_mode=True, data_prop=True)
    assert not [*refused(model)]
    values = Counter(value.name for value in model.graph.input)
    values.update(tensor.name for tensor in model.graph.initializer)
    nodes = Counter()
    for node in model.graph.node:
        nodes[node.name] += 1
        values.update(filter(None, node.output))
    assert set(values.values()) == set(nodes.values()) == {1}


def inputs_of(facts):
    generator = np.random.default_rng(0)
    if facts['pictures']:
        return generator.integers(0, 256, (1, 64, 64, 3), np.uint8)
    return generator.normal(size=(1, 3, 64, 64)).astype(np.float32)


def as_tensors(outputs):
    return {name: torch.as_tensor(value) for name, value in outputs.items()}


@pytest.mark.parametrize('name', [*ENCODERS, *OTHERS])
def test_onnx_runtime_prepares_and_quantizes_it(name, files, tmp_path,
                                                monkeypatch):
    if name in ('mf_dec', 'retinanet', 'heads'):
        pytest.importorskip('mmdet')
    pytest.importorskip('sympy')
    from onnxruntime.quantization import quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process
    exported = Exported(files(name))
    monkeypatch.chdir(tmp_path)  # it writes there what it cannot infer
    # The sides of maps are expressions that differ in their form.
    quant_pre_process(exported.path, 'prepared.onnx',
                      auto_merge=exported.facts['size'] is None)
    quantize_dynamic('prepared.onnx', 'quantized.onnx')
    images = inputs_of(exported.facts)
    expected = as_tensors(exported(images))
    prepared = Exported('prepared.onnx')(images)
    assert largest_difference(prepared, expected)[0] < 1e-4
    assert Exported('quantized.onnx')(images).keys() == expected.keys()


@torch.no_grad()
@pytest.mark.parametrize('name', ENCODERS)
def test_opencv_computes_the_same(name, files):
    cv2 = pytest.importorskip('cv2', minversion='5')
    exported = Exported(files(name))
    images = inputs_of(exported.facts)
    expected = as_tensors(exported(images))
    network = cv2.dnn.readNetFromONNX(exported.path)
    network.setInput(images, 'images')
    found = dict(zip(expected, network.forward([*expected])))
    assert largest_difference(found, expected)[0] < 1e-4
