"""Stores 24-byte rows on disk, in runs sorted by bucket, so that one bucket fits into memory.

A row is uint64 (3): both words of the id's fingerprint, and its row code. Its bucket is the highest byte of the first
word, so all rows of an id are in one bucket. A run is the rows flushed at once. NAME.rows has the rows of all runs;
NAME.runs has where the buckets of each run begin, uint64 (257). Of a billion rows a bucket has four million, from a
thousand runs.
"""

import os
from pathlib import Path

import numpy as np

from oncegate.arraytypes import U64
from oncegate.core.errors import BadRequest

BUCKETS = 256
# Rows buffered in memory before they become a run: 24 MiB, some 4,000 rows per bucket.
BUFFERED_ROWS = 1 << 20
_ROW_BYTES, _ENTRY_BYTES = 24, 8 * (BUCKETS + 1)
_SHIFT = np.uint64(56)


class SortedRuns:
    """Appends sorted runs to a set of files in a folder, and reads them back bucket by bucket."""

    def __init__(self, folder: Path, name: str, count: int) -> None:
        """Opens the files for appending after `count` runs; truncates everything after them.

        Raises BadRequest if there are fewer: the folder was changed.
        """
        self._rows, self._index = folder / f"{name}.rows", folder / f"{name}.runs"
        self._waiting: list[U64] = []
        self._waiting_rows = 0
        _cut(self._index, count * _ENTRY_BYTES)
        self._begins = np.fromfile(self._index, np.uint64).reshape(-1, BUCKETS + 1)
        _cut(self._rows, self._end * _ROW_BYTES)

    @property
    def _end(self) -> int:
        return int(self._begins[-1, -1]) if len(self._begins) else 0

    @property
    def is_full(self) -> bool:
        """Returns whether the buffer should be flushed."""
        return self._waiting_rows >= BUFFERED_ROWS

    def add(self, ids: U64, row_codes: U64) -> None:
        """Buffers rows, shapes (n, 2) and (n,), in memory until `flush`."""
        self._waiting.append(np.column_stack([ids, row_codes]))
        self._waiting_rows += len(ids)

    def flush(self) -> int:
        """Appends the buffered rows as one run. Returns the number of runs."""
        if self._waiting_rows:
            rows = np.concatenate(self._waiting)
            bucket = (rows[:, 0] >> _SHIFT).astype(np.uint8)
            ends = np.cumsum(np.bincount(bucket, minlength=BUCKETS))
            begins = (self._end + np.concatenate([[0], ends])).astype(np.uint64)
            for path, data in ((self._rows, rows[np.argsort(bucket, kind="stable")]), (self._index, begins)):
                with path.open("ab") as file:
                    file.write(data.tobytes())
            self._begins = np.concatenate([self._begins, begins[None]])
            self._waiting, self._waiting_rows = [], 0
        return len(self._begins)

    def load(self, bucket: int) -> U64:
        """Returns the flushed rows of one bucket, shape (n, 3)."""
        chunks: list[U64] = [np.empty(0, np.uint64)]
        with self._rows.open("rb") as file:
            for first, end in self._begins[:, bucket : bucket + 2].tolist():
                file.seek(first * _ROW_BYTES)
                chunks.append(np.fromfile(file, np.uint64, 3 * (end - first)))
        return np.concatenate(chunks).reshape(-1, 3)


def _cut(path: Path, length: int) -> None:
    path.touch()
    if (size := path.stat().st_size) < length:
        raise BadRequest(
            f"{path} has {size} bytes instead of {length}: the folder was changed; remove it to start over"
        )
    os.truncate(path, length)
