# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Modes of models that several blocks and threads share."""
import random

from torch import nn

from qbheat_mm.utils.modules import evaluating


def test_the_last_block_restores_each_mode():
    """Whatever the order in which blocks of nested models are left."""
    model = nn.Sequential(nn.Sequential(nn.BatchNorm2d(1)), nn.Dropout())
    model.train()
    model[0].eval()  # frozen
    before = [module.training for module in model.modules()]
    for seed in range(20):
        draw = random.Random(seed)
        parts = [model, model[0], model, model[1], model]
        blocks = [evaluating(part) for part in parts]
        for block in blocks:
            block.__enter__()
        while blocks:
            assert not model.training or model not in parts
            index = draw.randrange(len(blocks))
            part, block = parts.pop(index), blocks.pop(index)
            assert not any(module.training for module in part.modules())
            block.__exit__(None, None, None)
        assert [module.training for module in model.modules()] == before
