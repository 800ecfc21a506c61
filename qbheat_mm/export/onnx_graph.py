# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Write networks as ONNX with fewer and cheaper nodes than torch's exporter.

Some operations get shorter translations; patterns of several operations are
rewritten afterwards.
"""
import math

import numpy as np
import torch
from onnxscript import ir, opset18
from onnxscript.rewriter import pattern, rewrite
from torch.export import ExportedProgram

#: The operator set that torch's exporter writes without conversion.
OPSET = 18


def to_onnx(program: ExportedProgram, **options) -> torch.onnx.ONNXProgram:
    """Translate a program.

    Args:
        program (ExportedProgram): Program of ``torch.export``.
        **options: Names and dynamic shapes, see ``torch.onnx.export``.
    """
    aten = torch.ops.aten
    written = torch.onnx.export(
        program, opset_version=OPSET, dynamo=True, external_data=False,
        verbose=False, custom_translation_table={
            aten.scaled_dot_product_attention.default: _attention,
            aten.hardsigmoid.default: _hardsigmoid,
            aten.gelu.default: _gelu}, **options)
    rules = [TransposedProduct.rule(), ChannelMultiplier.rule()]
    rewrite(written.model, pattern_rewrite_rules=rules)
    for value in written.model.graph.inputs:
        if value.dtype == ir.DataType.UINT8:
            _cast_first(written.model.graph, value)
    # ONNX Runtime's quantization replaces initializers under their names, and
    # then fails at declared types and shapes.
    for value in written.model.graph.initializers.values():
        if not value.is_graph_output():
            value.type = value.shape = None
    return written


def _cast_first(graph: ir.Graph, pixels: ir.Value) -> None:
    """Read pixels only through their cast, as TensorRT requires of uint8."""
    cast, = (node for node in pixels.consumers() if node.op_type == 'Cast')
    ir.convenience.replace_all_uses_with(pixels, cast.outputs[0])
    cast.replace_input_with(0, pixels)
    graph.sort()


def _attention(query, key, value, attn_mask=None, dropout_p=0.,
               is_causal=False, scale=None, enable_gqa=False):
    """Attention that scales only the queries and copies no keys."""
    if is_causal or enable_gqa:
        raise NotImplementedError('attention with is_causal or enable_gqa')
    op, last = opset18, len(key.shape) - 1
    scale = query.shape[-1]**-0.5 if scale is None else scale
    keys = op.Transpose(key, perm=[*range(last - 1), last, last - 1])
    scores = op.MatMul(op.Mul(query, scale), keys)
    if attn_mask is not None and attn_mask.dtype == ir.DataType.BOOL:
        scores = op.Where(attn_mask, scores, -math.inf)
    elif attn_mask is not None:
        scores = op.Add(scores, attn_mask)
    return op.MatMul(op.Softmax(scores, axis=-1), value)


def _hardsigmoid(x):
    """In parts: OpenCV 5 takes HardSigmoid times a number for HardSwish."""
    op = opset18
    return op.Clip(op.Add(op.Mul(x, 1 / 6), 0.5), 0., 1.)


def _gelu(x, approximate='none'):
    """GELU in an order that ONNX Runtime fuses and OpenCV 5 can read."""
    op = opset18
    if approximate == 'tanh':
        cubic = op.Mul(op.Mul(op.Mul(x, x), x), 0.044715)
        bend = op.Tanh(op.Mul(op.Add(x, cubic), math.sqrt(2 / math.pi)))
    else:
        bend = op.Erf(op.Div(x, math.sqrt(2)))
    return op.Mul(op.Mul(x, 0.5), op.Add(bend, 1.))


class TransposedProduct(pattern.RewriteRuleClassBase):
    """``(A^T B)^T`` as ``B^T A``: transpose tokens instead of maps."""

    def pattern(self, op, a, b):
        """Match the product."""
        product = op.MatMul(op.Transpose(a, perm=[0, 2, 1]), b)
        return op.Transpose(product, perm=[0, 2, 1])

    def rewrite(self, op, a, b):
        """Return the replacement."""
        return op.MatMul(op.Transpose(b, perm=[0, 2, 1]), a)


class ChannelMultiplier(pattern.RewriteRuleClassBase):
    """A depthwise convolution with m outputs a channel, before a 1x1 one.

    Runtimes are faster with m plain depthwise convolutions. Their outputs are
    concatenated, which orders channels differently, and so the weights of
    the 1x1 convolution.
    """

    def pattern(self, op, x, weight, bias, low, high, weight_1x1, bias_1x1):
        """Match both convolutions."""
        x = op.Conv(x, weight, bias, _allow_other_attributes=True,
                    _outputs=['depthwise'])
        return op.Conv(
            op.Clip(x, low, high), weight_1x1, bias_1x1,
            _allow_other_attributes=True, _outputs=['pointwise'])

    def check(self, context, weight, bias, weight_1x1, depthwise, pointwise,
              **_):
        """Whether weights are constants, and kernels fit the pattern."""
        constants = (weight, bias, weight_1x1)
        return (all(value.const_value is not None for value in constants)
                and _groups(depthwise) < weight.shape[0]
                and weight.shape[1] == _groups(pointwise) == 1
                and weight_1x1.shape[2] == weight_1x1.shape[3] == 1)

    def rewrite(self, op, x, weight, bias, low, high, weight_1x1, bias_1x1,
                depthwise, pointwise):
        """Return the replacement."""
        def part_of(value, i, *index):
            array = value.const_value.numpy()[index]
            return op.initializer(ir.tensor(array), f'{value.name}_{i}')

        channels = weight.shape[0]
        multiplier = channels // _groups(depthwise)
        order = np.arange(channels).reshape(-1, multiplier).T
        parts = []
        for i, part in enumerate(order):
            conv = op.Conv(
                x, part_of(weight, i, part), part_of(bias, i, part),
                **depthwise.producer().attributes)
            parts.append(op.Clip(conv, low, high))
        return op.Conv(
            op.Concat(*parts, axis=1),
            part_of(weight_1x1, 'ordered', slice(None), order.ravel()),
            bias_1x1, **pointwise.producer().attributes)


def _groups(conv) -> int:
    return conv.producer().attributes.get_int('group', 1)
