# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Arguments of the tools that embed images, and the files they write."""
import csv
import importlib
import os.path as osp
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable

import numpy as np

from ..errors import UserError
from ..trained.encoder import POOLS
from ..utils.atomic_write import atomic_write
from .command_line import add_device, count, whole

#: Names and vectors (B, D), float32, of some images.
Batches = Iterable[tuple[list[str], np.ndarray]]


def add_embedding_arguments(parser: ArgumentParser) -> None:
    """Add the arguments that define how images are embedded."""
    parser.add_argument(
        '--config', help='config, for a checkpoint that contains only '
        'weights: a file or a name of ours')
    parser.add_argument(
        '--pool', choices=POOLS, default='avg',
        help='mean of the features, the first token, both, or maximum of the '
        'features; defaults to avg')
    parser.add_argument(
        '--size', type=whole, nargs='+', metavar='PIXELS',
        help='scale and crop images to this side, or height and width; '
        'defaults to the size of the training, or 224; 0 keeps the size of '
        'each image, rounded to multiples of 32')
    parser.add_argument(
        '--batch-size', type=count, default=64,
        help='images at a time; defaults to 64')
    parser.add_argument(
        '--workers', type=whole, default=0,
        help='processes that decode images; defaults to 0, none')
    add_device(parser)


def embedding_options(args: Namespace) -> dict:
    """Arguments of :func:`embed_batches`."""
    return dict(pool=args.pool, size=args.size, batch_size=args.batch_size,
                workers=args.workers)


def embedding_writer(path: str) -> Callable[[Batches], None]:
    """Create a function that streams batches into a file.

    ``.npz`` contains ``embeddings`` (N, D) and ``files`` (N,), ``.csv`` and
    ``.parquet`` a row for each image. Memory holds one batch and the names.

    Raises:
        UserError: If the extension is unknown, or pyarrow is missing.
    """
    extension = osp.splitext(path)[1].lower()
    if extension not in _WRITERS:
        raise UserError(f"--out '{path}' must end in {', '.join(_WRITERS)}")
    if extension == '.parquet':
        try:
            importlib.import_module('pyarrow.parquet')
        except ImportError as error:
            raise UserError(f"--out '{path}' needs pyarrow ({error}): pip "
                            'install pyarrow, or write .npz or .csv'
                            ) from error

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
            # Nine digits identify each float32.
            writer.writerows(
                [name, *(f'{value:.9g}' for value in row)]
                for name, row in zip(names, vectors.tolist()))


def _write_parquet(path: str, batches: Batches) -> None:
    import pyarrow
    from pyarrow.parquet import ParquetWriter
    writer = None
    try:
        for names, vectors in batches:
            table = pyarrow.table({
                'file': pyarrow.array(names, pyarrow.string()),
                'embedding': pyarrow.FixedSizeListArray.from_arrays(
                    pyarrow.array(vectors.ravel()), vectors.shape[1])})
            writer = writer or ParquetWriter(path, table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


_WRITERS = {'.npz': _write_npz, '.csv': _write_csv,
            '.parquet': _write_parquet}
