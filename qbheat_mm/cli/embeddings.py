# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Arguments and output files of the tools that embed images."""
import csv
import importlib.util
import os.path as osp
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from contextlib import ExitStack

import numpy as np

from ..errors import UserError
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


def embedding_writer(path: str) -> Callable[[Batches], None]:
    """Create a function that streams batches into a file.

    ``.npz`` contains ``embeddings`` (N, D) and ``files`` (N,), ``.csv`` and
    ``.parquet`` one row per image. Only the names and one batch are kept in
    memory.

    Raises:
        UserError: If the extension is unknown, or pyarrow is missing.
    """
    extension = osp.splitext(path)[1].lower()
    if extension not in _WRITERS:
        raise UserError(f"--out '{path}' must end in {', '.join(_WRITERS)}")
    if extension == '.parquet' and not importlib.util.find_spec('pyarrow'):
        raise UserError(f"--out '{path}' needs pyarrow: pip install pyarrow, "
                        'or write .npz or .csv')

    def write(batches: Batches) -> None:
        with atomic_write(path) as part:
            _WRITERS[extension](part, batches)

    return write


def _write_npz(path: str, batches: Batches) -> None:
    files, width = [], 0
    with tempfile.TemporaryFile(dir=osp.dirname(path)) as rows:
        for names, vectors in batches:
            files += names
            width = vectors.shape[1]
            rows.write(np.ascontiguousarray(vectors, np.float32).data)
        rows.flush()
        with open(path, 'wb') as file:
            np.savez(file, files=np.array(files), embeddings=np.memmap(
                rows, np.float32, 'r', shape=(len(files), width)))


def _write_csv(path: str, batches: Batches) -> None:
    with open(path, 'w', newline='', encoding='utf-8',
              errors='surrogateescape') as file:
        writer = csv.writer(file)
        for number, (names, vectors) in enumerate(batches):
            if not number:
                writer.writerow(
                    ['file', *(f'e{i}' for i in range(vectors.shape[1]))])
            # Nine digits identify a float32.
            writer.writerows(
                [name, *(f'{value:.9g}' for value in row)]
                for name, row in zip(names, vectors.tolist()))


def _write_parquet(path: str, batches: Batches) -> None:
    import pyarrow
    from pyarrow.parquet import ParquetWriter
    writer = None
    with ExitStack() as stack:
        for names, vectors in batches:
            table = pyarrow.table({
                'file': pyarrow.array(names, pyarrow.string()),
                'embedding': pyarrow.FixedSizeListArray.from_arrays(
                    pyarrow.array(vectors.ravel()), vectors.shape[1])})
            writer = writer or stack.enter_context(
                ParquetWriter(path, table.schema))
            writer.write_table(table)


_WRITERS = {'.npz': _write_npz, '.csv': _write_csv,
            '.parquet': _write_parquet}
