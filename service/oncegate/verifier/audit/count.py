"""Counts duplicate rows in one pass over the rows and one over their ids, which are sorted on disk.

A row has an id, and perhaps its time and the attempt and batch that wrote it; writers are numbers of 32 bits, hashes of
their names. The temporary folder uses 24 bytes per row, and another 24 if rows have writers. A 256th of that is in
memory.
"""

import hashlib
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from oncegate.arraytypes import I64, U32, U64
from oncegate.hashing.ids import Fingerprinter, IdSets
from oncegate.verifier.audit.report import AGES_MS, CAUSES, HORIZONS_MS, AuditCounts
from oncegate.verifier.ids import fingerprints, present
from oncegate.verifier.runs import BUCKETS, SortedRuns


class AuditRows(NamedTuple):
    """Some rows of a source.

    ids: as text or bytes.
    times: when each was written, wall-clock ms, int64 (n,).
    attempts, batches: numbers for the attempt and the batch that wrote each row, uint32 (n,); 0: unknown.
    """

    ids: pa.Table
    times: I64
    attempts: U32
    batches: U32


class AuditSource(Protocol):
    """Yields the rows of a table or a topic."""

    @property
    def total(self) -> int | None:
        """Returns the number of rows; None if it is not known before reading."""

    @property
    def is_timed(self) -> bool:
        """Returns whether rows carry the time at which they were written."""

    @property
    def has_writers(self) -> bool:
        """Returns whether rows name their writer."""

    def rows(self) -> Iterator[AuditRows]:
        """Yields every row exactly once."""


# Called with the name of a step, the amount done, and the total.
ReportStep = Callable[[str, int, int | None], None]
_SIGN, _LOW = np.uint64(1 << 63), np.uint64(0xFFFF_FFFF)
_KEY_BYTES = 32


def count(source: AuditSource, report_step: ReportStep) -> AuditCounts:
    """Reads all rows of a source and counts their ids and duplicates by cause. Raises the source's errors, and
    BadRequest if an id is too long.
    """
    with tempfile.TemporaryDirectory(prefix="oncegate-audit-") as folder:
        counting = _Counting(source, Path(folder))
        for rows in source.rows():
            counting.add(rows)
            report_step("rows", counting.counts.rows, source.total)
        counting.flush()
        for bucket in range(BUCKETS):
            counting.compare(bucket)
            report_step("ids", bucket + 1, BUCKETS)
        return counting.counts


class _Counting:
    """The ids and times of rows and, in separate files in the same order, their writers."""

    def __init__(self, source: AuditSource, folder: Path) -> None:
        self.counts = AuditCounts()
        self._times = SortedRuns(folder, "times", 0)
        self._writers = SortedRuns(folder, "writers", 0) if source.has_writers else None
        # Drawn for this run: a ledger's fingerprints use the namespace's key, which is secret.
        self._printer: Fingerprinter = IdSets(secrets.token_bytes(_KEY_BYTES)).of("audit")
        if source.is_timed:
            self.counts.ages, self.counts.caught = dict.fromkeys(AGES_MS, 0), dict.fromkeys(HORIZONS_MS, 0)
        if self._writers is not None:
            self.counts.causes = {}

    def add(self, rows: AuditRows) -> None:
        there = present(rows.ids)
        first = self.counts.rows
        self.counts.rows += len(there)
        self.counts.without_id += int(np.count_nonzero(~there))
        ids = fingerprints(rows.ids.filter(there), self._printer, first)
        self._times.add(ids, rows.times[there].astype(np.uint64) ^ _SIGN)
        if self._writers is not None:
            both = rows.attempts.astype(np.uint64) << np.uint64(32) | rows.batches.astype(np.uint64)
            self._writers.add(ids, both[there])
        if self._times.is_full:
            self.flush()

    def flush(self) -> None:
        self._times.flush()
        if self._writers is not None:
            self._writers.flush()

    def compare(self, bucket: int) -> None:
        """Counts the ids of one bucket; all rows of an id are in the same bucket."""
        rows = self._times.load(bucket)
        if not len(rows):
            return
        order = np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))
        rows = rows[order]
        begins = np.flatnonzero(np.concatenate([[True], (rows[1:, :2] != rows[:-1, :2]).any(axis=1)]))
        copies = np.diff(np.append(begins, len(rows)))
        counts = self.counts
        counts.ids += len(begins)
        counts.repeated_ids += int(np.count_nonzero(copies > 1))
        counts.most_copies = max(counts.most_copies, int(copies.max()))
        firsts = np.repeat(begins, copies)
        is_copy = firsts != np.arange(len(rows))
        if counts.ages is not None:
            self._count_ages(rows[is_copy, 2] - rows[firsts[is_copy], 2])
        if self._writers is not None:
            writers = self._writers.load(bucket)[order, 2]
            self._count_causes(writers[is_copy], writers[firsts[is_copy]])

    def _count_ages(self, apart: U64) -> None:
        ages, caught, ms = self.counts.ages, self.counts.caught, apart.astype(np.int64)
        assert ages is not None
        assert caught is not None
        before = 0
        for name, most_ms in AGES_MS.items():
            within = len(ms) if most_ms is None else _within(ms, most_ms)
            ages[name] += within - before
            before = within
        for name, horizon_ms in HORIZONS_MS.items():
            caught[name] += _within(ms, horizon_ms)

    def _count_causes(self, copies: U64, firsts: U64) -> None:
        causes = self.counts.causes
        assert causes is not None
        of_attempts = _same(copies >> np.uint64(32), firsts >> np.uint64(32))
        of_batches = _same(copies & _LOW, firsts & _LOW)
        kinds, numbers = np.unique(np.stack([of_attempts, of_batches]), axis=1, return_counts=True)
        for (attempt, batch), number in zip(kinds.T.tolist(), numbers.tolist(), strict=True):
            cause = CAUSES[_KNOWN[attempt], _KNOWN[batch]].name
            causes[cause] = causes.get(cause, 0) + number


_KNOWN = {0: False, 1: True, 2: None}


def _within(ms: I64, most_ms: int) -> int:
    return int(np.count_nonzero(ms <= most_ms))


def _same(left: U64, other: U64) -> I64:
    """Compares numbers pairwise; returns 0 for different, 1 for equal, 2 for unknown."""
    return np.where((left == 0) | (other == 0), 2, left == other).astype(np.int64)


# Cache of hashed names: attempts and batches that occur near each other are hashed once.
_KEPT = 65_536


def numbers_of(names: Iterable[Any]) -> U32:
    """Returns a hash of each name (text, bytes or number), uint32 (n,); 0 for a missing name.

    Two of n names collide by accident with a probability of n^2 / 2^33; then a copy counts under the wrong cause.
    """
    return np.array([0 if name in (None, "") else _number(name) for name in names], np.uint32)


@lru_cache(_KEPT)
def _number(name: Any) -> int:
    data = name if isinstance(name, bytes) else str(name).encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=4).digest(), "little") or 1
