# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Threads and processes of a server use a loaded model."""
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from qbheat_mm.apis import embed, load_encoder, load_heads

#: As docs/in_python.md says: one thread before a fork.
SERVER = """
import multiprocessing, sys
import numpy as np, torch
from qbheat_mm.apis import embed, load_encoder

torch.set_num_threads(1)
encoder = load_encoder(sys.argv[1])  # spawned workers load their own

def work(level):
    image = np.full((64, 64, 3), level, np.uint8)
    return embed(encoder, image, size=64).embeddings

if __name__ == '__main__':
    expected = [work(level) for level in range(3)]
    for method in ('fork', 'spawn'):
        with multiprocessing.get_context(method).Pool(1) as pool:
            found = pool.map_async(work, range(3)).get(300)
        print(method, np.allclose(found, expected, atol=1e-5))
"""


@pytest.fixture
def pictures():
    random = np.random.default_rng(0)
    return list(random.integers(0, 255, (12, 64, 64, 3), np.uint8))


def in_threads(function, items):
    """Call a function several times for each item."""
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(function, items * 4))


def test_threads_embed_with_a_model_in_training_mode(checkpoint, pictures):
    encoder = load_encoder(checkpoint)
    expected = embed(encoder, pictures, size=64).embeddings
    encoder.train()
    encoder.backbone.stem.eval()  # frozen
    before = [module.training for module in encoder.modules()]
    statistics = {name: buffer.clone()
                  for name, buffer in encoder.named_buffers()}
    found = in_threads(
        lambda image: embed(encoder, image, size=64).embeddings[0], pictures)
    np.testing.assert_allclose(
        found, np.tile(expected, (4, 1)), rtol=1e-4, atol=1e-5)
    assert [module.training for module in encoder.modules()] == before
    for name, buffer in encoder.named_buffers():
        assert torch.equal(buffer, statistics[name])


@pytest.mark.mmdet
def test_threads_predict_with_several_heads(head_runs, pictures):
    pytest.importorskip('mmdet')
    heads = load_heads({name: head_runs[name] for name in ('lin', 'boxes')})
    images = [torch.from_numpy(image).permute(2, 0, 1) for image in pictures]

    def predict(image):
        found = heads.test_step(dict(inputs=[image], data_samples=None))
        objects = found['boxes'][0].pred_instances
        return found['lin'][0].pred_score, objects.scores, objects.bboxes

    expected = [predict(image) for image in images]
    for found, alone in zip(in_threads(predict, images), expected * 4):
        torch.testing.assert_close(found, alone)


def test_forked_and_spawned_workers_embed(checkpoint, tmp_path):
    script = tmp_path / 'server.py'
    script.write_text(SERVER)
    done = subprocess.run(
        [sys.executable, str(script), checkpoint], timeout=600,
        capture_output=True, text=True,
        env=dict(os.environ, OMP_NUM_THREADS='4'))
    assert done.stdout == 'fork True\nspawn True\n', done.stderr
