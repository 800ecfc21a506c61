# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What the tools that embed images share: arguments, and files to write."""
import csv
import os.path as osp
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable

import numpy as np

from ..errors import UserError
from ..evaluation.encoder import POOLS
from ..utils.atomic_write import atomic_write
from .command_line import add_device, count, whole

#: Names and vectors (B, D), float32, of some images.
Batches = Iterable[tuple[list[str], np.ndarray]]


def add_embedding_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of how images become vectors."""
    parser.add_argument(
        '--pool', choices=POOLS, default='avg',
        help='features averaged over the image, the first token, both in a '
        "row, or the features' maxima; defaults to avg")
    parser.add_argument(
        '--size', type=whole, nargs='+', metavar='PIXELS',
        help='scale and crop images to this side, or height and width; by '
        'default the size of the training, or 224; 0 keeps the size of each '
        'image, rounded to multiples of 32')
    parser.add_argument(
        '--batch-size', type=count, default=64,
        help='images at a time; defaults to 64')
    parser.add_argument(
        '--workers', type=whole, default=0,
        help='processes that decode images; defaults to 0, none')
    add_device(parser)


def embedding_options(args: Namespace) -> dict:
    """The arguments as those of :func:`embed_batches`."""
    return dict(pool=args.pool, size=args.size, batch_size=args.batch_size,
                workers=args.workers)


def embedding_writer(path: str) -> Callable[[Batches], None]:
    """A function that writes batches into a file, which appears when whole.

    ``.npz`` holds ``embeddings`` (N, D) and ``files`` (N,), ``.csv`` and
    ``.parquet`` a row for each image. Memory holds one batch and the names.

    Raises:
        UserError: If the file's name ends otherwise, or pyarrow is missing.
    """
    ending = osp.splitext(path)[1].lower()
    if ending not in _WRITERS:
        raise UserError(f"--out '{path}': the name must end with "
                        f'{", ".join(_WRITERS)}')
    if ending == '.parquet':
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError as error:
            raise UserError(f"--out '{path}' needs pyarrow ({error}): pip "
                            'install pyarrow, or write .npz or .csv'
                            ) from error

    def write(batches: Batches) -> None:
        with atomic_write(path) as part:
            _WRITERS[ending](part, batches)

    return write


def _write_npz(path: str, batches: Batches) -> None:
    names, width = [], 0
    with tempfile.TemporaryFile(dir=osp.dirname(path)) as rows:
        for some, vectors in batches:
            names += some
            width = vectors.shape[1]
            rows.write(np.ascontiguousarray(vectors, np.float32).data)
        rows.flush()
        with open(path, 'wb') as file:
            np.savez(file, files=np.array(names), embeddings=np.memmap(
                rows, np.float32, 'r', shape=(len(names), width)))


def _write_csv(path: str, batches: Batches) -> None:
    with open(path, 'w', newline='', encoding='utf-8',
              errors='surrogateescape') as file:
        writer = csv.writer(file)
        for number, (names, vectors) in enumerate(batches):
            if not number:
                writer.writerow(
                    ['file', *(f'e{i}' for i in range(vectors.shape[1]))])
            # Nine digits tell each float32 from every other.
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
