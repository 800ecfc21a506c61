# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Options and output files of the tools that embed images."""
import os.path as osp
import tempfile
from argparse import Namespace
from collections.abc import Iterable

import numpy as np

from ..utils.atomic_write import atomic_write

#: Batches of names and vectors (B, D), float32.
Batches = Iterable[tuple[list[str], np.ndarray]]


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
