# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Whatever is wrong with a checkpoint: one line, or the weights as they were.

A seeded generator changes a checkpoint of a run in its content and its bytes.
"""
import copy
import random

import numpy as np
import pytest
import torch

from qbheat_mm.compat import load_checkpoint
from qbheat_mm.errors import UserError

from .runs import Encoder, build, train

ONES = torch.ones(1, 2)
JUNK = (None, True, -1, 10**30, float('nan'), '', 'x' * 99, [], [1], (), {},
        {0: 1}, {'a': {}}, b'\x00', np.ones(2), np.float32(3), ONES / 0,
        ONES.bool(), ONES.to(torch.int8), ONES.to_sparse(), ONES.to('meta'),
        ONES.to(torch.complex64), torch.ones(3, 3, 3), torch.ones(0),
        torch.nested.nested_tensor([ONES]),
        torch.quantize_per_tensor(ONES, 0.1, 0, torch.qint8))


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    """A checkpoint of two epochs."""
    folder = tmp_path_factory.mktemp('whole')
    train(folder, epochs=2)
    return folder / 'epoch_2.pth'


def places(content, path=()):
    """Every path of keys into nested containers."""
    items = content.items() if isinstance(content, dict) else (
        enumerate(content) if isinstance(content, list) else ())
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def change_content(content, generator):
    """Replace or remove something at one or two places."""
    content = copy.deepcopy(content)
    for _ in range(generator.choice([1, 1, 2])):
        *path, key = generator.choice(list(places(content)))
        holder = content
        for step in path:
            holder = holder[step]
        if generator.random() < 0.25:
            del holder[key]
        else:
            holder[key] = generator.choice(JUNK)
    return content


def change_bytes(whole, generator):
    """Flip, cut, blank, repeat or insert bytes."""
    content = bytearray(whole)
    start = generator.randrange(len(content))
    end = min(len(content), start + generator.choice([1, 9, 999]))
    kind = generator.randrange(5)
    if kind == 0:
        content[start] ^= 1 << generator.randrange(8)
    elif kind == 1:
        del content[start:]
    elif kind == 2:
        content[start:end] = bytes(end - start)
    elif kind == 3:
        content[start:start] = content[start:end]
    else:
        content[start:end] = generator.randbytes(generator.randrange(99))
    return bytes(content)


def write(whole, file, seed):
    generator = random.Random(seed)
    if seed % 2:
        file.write_bytes(change_bytes(whole.read_bytes(), generator))
    else:
        torch.save(change_content(load_checkpoint(str(whole)), generator),
                   file)


def into_encoder(folder):

    def load(file):
        encoder = Encoder(2, dict(type='PretrainedEncoder',
                                  checkpoint=str(file)))
        encoder.init_weights()
        return {f'backbone.{name}': tensor
                for name, tensor in encoder.state_dict().items()}, {}

    return load


def into_model(folder):
    runner = build(folder)

    def load(file):
        for tensor in runner.model.state_dict().values():
            tensor.zero_()
        runner._load_from = str(file)  # as load_from and tools/test.py do
        runner.load_checkpoint(str(file))
        return runner.model.state_dict(), {}

    return load


def into_run(folder):

    def load(file):
        # A run of two epochs: nothing is left to train.
        runner = build(folder / file.stem, epochs=2, scores=(0, ),
                       resume=True, load_from=str(file))
        runner.train()
        return (runner.model.state_dict(),
                runner.optim_wrapper.state_dict()['state'])

    return load


@pytest.mark.parametrize('loader,seeds', [
    (into_encoder, range(200)), (into_model, range(200, 400)),
    (into_run, range(400, 440))])
def test_one_line_or_the_weights_as_they_were(whole, tmp_path, loader,
                                              seeds):
    load = loader(tmp_path / 'run')
    content = load_checkpoint(str(whole))
    refused = 0
    for seed in seeds:
        file = tmp_path / f'{seed}.pth'
        write(whole, file, seed)
        try:
            weights, state = load(file)
        except (UserError, FileNotFoundError) as error:
            refused += 1
            assert '\n' not in str(error), (seed, error)
            assert file.name in str(error), (seed, error)
            continue
        for name, tensor in weights.items():
            assert torch.equal(tensor, content['state_dict'][name]), seed
        for number, values in state.items():
            for name, value in values.items():
                wanted = content['optimizer']['state'][number][name]
                assert torch.equal(value, wanted), seed
    assert len(seeds) // 4 < refused < len(seeds)
