# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Files of embeddings, written batch by batch.

A file appears under its name when it is whole. Memory holds one batch and the
names.
"""
import csv
import os
import os.path as osp
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType

import numpy as np

from ..errors import UserError
from ..utils.atomic_write import part_of


class EmbeddingFile(ABC):
    """A file that takes names and vectors, as a context.

    Args:
        path (str): Where it is in the end.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.part = part_of(path)
        os.makedirs(osp.dirname(osp.abspath(path)), exist_ok=True)

    def __enter__(self) -> 'EmbeddingFile':
        return self

    def __exit__(self, kind: type | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        try:
            self.close(whole=kind is None)
            if kind is None:
                os.replace(self.part, self.path)
        finally:
            if osp.exists(self.part):
                os.remove(self.part)

    @abstractmethod
    def add(self, names: Sequence[str], vectors: np.ndarray) -> None:
        """Append names and their vectors, (B, D), float32."""

    @abstractmethod
    def close(self, whole: bool) -> None:
        """Finish :attr:`part`; nothing more comes."""


class NpzFile(EmbeddingFile):
    """``embeddings`` (N, D), float32, and ``files`` (N,) for ``np.load``."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.names, self.width = [], 0
        self.rows_path = f'{self.part}.rows'
        self.rows = open(self.rows_path, 'wb')  # noqa: SIM115

    def add(self, names: Sequence[str], vectors: np.ndarray) -> None:
        """Append names and their vectors."""
        self.names += names
        self.width = vectors.shape[1]
        self.rows.write(np.ascontiguousarray(vectors, np.float32).data)

    def close(self, whole: bool) -> None:
        """Pack what was written."""
        self.rows.close()
        try:
            if whole:
                rows = np.memmap(self.rows_path, np.float32, 'r',
                                 shape=(len(self.names), self.width))
                with open(self.part, 'wb') as file:
                    np.savez(file, embeddings=rows,
                             files=np.array(self.names))
        finally:
            os.remove(self.rows_path)


class CsvFile(EmbeddingFile):
    """A line for each image: its file, and D numbers."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.file = open(  # noqa: SIM115
            self.part, 'w', newline='', encoding='utf-8',
            errors='surrogateescape')
        self.writer = csv.writer(self.file)
        self.is_empty = True

    def add(self, names: Sequence[str], vectors: np.ndarray) -> None:
        """Append names and their vectors; the first time, a head."""
        if self.is_empty:
            self.writer.writerow(
                ['file', *(f'e{i}' for i in range(vectors.shape[1]))])
            self.is_empty = False
        # Nine digits tell each number of float32 from every other.
        self.writer.writerows(
            [name, *(f'{value:.9g}' for value in row)]
            for name, row in zip(names, vectors.tolist()))

    def close(self, whole: bool) -> None:
        """Write out what waits."""
        self.file.close()


class ParquetFile(EmbeddingFile):
    """Columns ``file``, text, and ``embedding``, lists of D float32.

    Raises:
        UserError: If pyarrow is not installed.
    """
    rows_at_a_time = 4096

    def __init__(self, path: str) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise UserError(
                f"--out '{path}': Parquet files need pyarrow ({error}): "
                'install it with `pip install pyarrow`, or write .npz or .csv'
            ) from error
        super().__init__(path)
        self.arrow = pyarrow
        self.writer = None
        self.names, self.vectors = [], []

    def add(self, names: Sequence[str], vectors: np.ndarray) -> None:
        """Append names and their vectors."""
        self.names += names
        self.vectors.append(vectors)
        if len(self.names) >= self.rows_at_a_time:
            self._write()

    def _write(self) -> None:
        """Write the rows that wait."""
        vectors = np.concatenate(self.vectors)
        table = self.arrow.table({
            'file': self.arrow.array(self.names, self.arrow.string()),
            'embedding': self.arrow.FixedSizeListArray.from_arrays(
                self.arrow.array(vectors.ravel()), vectors.shape[1])})
        if self.writer is None:
            self.writer = self.arrow.parquet.ParquetWriter(
                self.part, table.schema)
        self.writer.write_table(table)
        self.names, self.vectors = [], []

    def close(self, whole: bool) -> None:
        """Write the last rows."""
        if whole and self.names:
            self._write()
        if self.writer is not None:
            self.writer.close()


KINDS = {'.npz': NpzFile, '.csv': CsvFile, '.parquet': ParquetFile}


def open_for_embeddings(path: str) -> EmbeddingFile:
    """A file of the kind that its ending names.

    Raises:
        UserError: If there is no such kind, or it is not installed.
    """
    ending = osp.splitext(path)[1].lower()
    if ending not in KINDS:
        raise UserError(f"--out '{path}': the name must end with "
                        f'{", ".join(KINDS)}')
    return KINDS[ending](path)
