# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Arguments and output files of the tools that embed images."""
import os.path as osp
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable

import numpy as np

from ..trained.encoder import POOLS
from ..utils.atomic_write import atomic_write
from .command_line import add_device, count, whole

#: Batches of names and vectors (B, D), float32.
Batches = Iterable[tuple[list[str], np.ndarray]]


def add_embedding_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of :func:`embed_batches`, and ``--config``."""
    parser.add_argument(
        '--config', help='config file or name, for a checkpoint that contains '
        'only weights')
    parser.add_argument(
        '--pool', choices=POOLS, default='avg',
        help='mean of the features, first token, both, or maximum of the '
        'features; defaults to avg')
    parser.add_argument(
        '--size', type=whole, nargs='+', metavar='PIXELS',
        help='side, or height and width, to scale and crop images to; '
        'defaults to the training size, or 224; 0 keeps the size of each '
        'image, rounded to multiples of 32')
    parser.add_argument(
        '--batch-size', type=count, default=64,
        help='images per batch; defaults to 64')
    parser.add_argument(
        '--workers', type=whole, default=0,
        help='processes that decode images; defaults to 0')
    add_device(parser)


def embedding_options(args: Namespace) -> dict:
    """Return the arguments for :func:`embed_batches`."""
    return dict(pool=args.pool, size=args.size, batch_size=args.batch_size,
                workers=args.workers)


def write_embeddings(path: str, batches: Batches) -> None:
    """Stream batches into ``.npz``: ``embeddings`` (N, D), ``files`` (N,).

    Only the names and one batch are kept in memory.
    """
    files, width = [], 0
    with atomic_write(path) as part, tempfile.TemporaryFile(
            dir=osp.dirname(part)) as rows:
        for names, vectors in batches:
            files += names
            width = vectors.shape[1]
            rows.write(np.ascontiguousarray(vectors, np.float32).data)
        rows.flush()
        embeddings = np.memmap(
            rows, np.float32, 'r', shape=(len(files), width))
        with open(part, 'wb') as file:
            np.savez(file, files=np.array(files), embeddings=embeddings)
