# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Which values of a file may become a network's weights."""
import numpy as np
import pytest
import torch

from qbheat_mm.engine.matching import compare, parts_of
from qbheat_mm.engine.weights import impossible, named_weights, unlike

ONES = torch.ones(2, 2)
COUNT = torch.tensor(3)


@pytest.mark.parametrize('value,words', [
    (np.ones((2, 2)), 'a numpy.ndarray'), ([1.], 'a list'), (1., 'a float'),
    (None, 'a NoneType'), (ONES.to_sparse(), 'a sparse tensor'),
    (ONES.to_sparse_csr(), 'a sparse tensor'),
    (torch.nested.nested_tensor([ONES, ONES]), 'a nested tensor'),
    (ONES.to('meta'), 'without values'),
    (torch.nn.UninitializedParameter(), 'without values'),
    (ONES.to(torch.int8), 'int8 in the file, float32 needed'),
    (ONES.long(), 'int64 in the file'), (ONES.bool(), 'bool in the file'),
    (ONES.to(torch.complex64), 'complex64 in the file'),
    (ONES.to(torch.float8_e4m3fn), 'float8_e4m3fn in the file'),
    (torch.quantize_per_tensor(ONES, 0.1, 0, torch.qint8), 'qint8 in the'),
])
def test_a_value_of_another_kind_is_no_weight(value, words):
    assert words in unlike(value, ONES)
    mismatch = compare(dict(a=ONES), dict(a=value))
    assert '1 of another kind (a: ' in str(mismatch) and words in str(mismatch)


@pytest.mark.parametrize('value', [
    ONES, ONES.half(), ONES.bfloat16(), ONES.double(),
    torch.nn.Parameter(ONES), ONES.T, ONES[:1].expand(2, 2)
])
def test_floating_point_numbers_of_another_precision_are_weights(value):
    assert unlike(value, ONES) is None
    assert not compare(dict(a=ONES), dict(a=value))


@pytest.mark.parametrize('value,fits', [
    (torch.tensor(3, dtype=torch.int32), True), (torch.tensor(3.), False),
    (torch.tensor(True), False)
])
def test_whole_numbers_stay_whole_numbers(value, fits):
    assert (unlike(value, COUNT) is None) == fits


def test_impossible_values_are_named():
    weights = {
        'good': ONES, 'nan': ONES * float('nan'), 'inf': -ONES / 0,
        'half': (ONES * float('inf')).half(), 'large': ONES.double() * 1e300,
        'bn.running_var': torch.tensor([1., -1.]), 'count': COUNT,
        'bn.running_mean': torch.tensor([1., float('nan')]),
        'bias': torch.tensor([-1.]), 'text': 'x', 'meta': ONES.to('meta'),
        'sparse': ONES.to_sparse()
    }
    assert impossible(weights) == [
        'nan', 'inf', 'half', 'large', 'bn.running_var', 'bn.running_mean']


def test_weights_are_found_under_their_names():
    assert named_weights(dict(state_dict={'module.a': 1, 2: 3})) == dict(a=1)
    assert named_weights(dict(a=1)) == dict(a=1)
    for nothing in ([], None, dict(state_dict=[1]), 5):
        assert named_weights(nothing) == {}


def test_the_largest_parts_that_differ_are_named():
    network = ['backbone.a', 'head.cls.weight', 'head.cls.bias', 'head.reg.w',
               'head.bn.num_batches_tracked', 'scale']
    assert parts_of(network[1:3], network) == ['head.cls.']
    assert parts_of(network[1:4], network) == ['head.']
    assert parts_of(['scale', 'head.reg.w'], network) == ['head.reg.', 'scale']
