"""Collects the results of all buckets: one byte per input row on disk, and the first row codes of each kind in
memory.
"""

from pathlib import Path

import numpy as np

from oncegate.arraytypes import I64, U8, U64
from oncegate.verifier.compare import Compared
from oncegate.verifier.kinds import FindingKind

# Number of input rows whose kinds are read at once.
_CHUNK = 1 << 22
_NO_PAIRS: U64 = np.empty((0, 2), np.uint64)


class Findings:
    """Keeps the counts in memory and each input row's kind in a file; only the first row of an id has a kind.

    shown: number of findings of each kind whose row codes are kept.
    counts: ids by `FindingKind`.
    extra_rows: output rows of doubled ids beyond the first.
    foreign_rows: output rows of foreign ids.
    repeated: input rows whose id occurred earlier.
    """

    def __init__(self, folder: Path, rows: int, shown: int) -> None:
        path = folder / "kinds"
        path.write_bytes(b"")
        # One extra byte: an empty file cannot be mapped.
        self._kinds = np.memmap(path, np.uint8, "w+", shape=(rows + 1,))
        self._rows, self._shown = rows, shown
        self.counts = dict.fromkeys(FindingKind, 0)
        self.extra_rows = self.foreign_rows = self.repeated = 0
        self._doubled, self._foreign = _NO_PAIRS, np.empty(0, np.uint64)

    def add(self, compared: Compared) -> None:
        """Adds the result of one bucket."""
        self._kinds[compared.rows.astype(np.intp)] = compared.kinds
        for kind, count in enumerate(np.bincount(compared.kinds, minlength=len(FindingKind)).tolist()):
            self.counts[FindingKind(kind)] += count
        self.counts[FindingKind.FOREIGN] += compared.foreign_ids
        self.extra_rows += compared.extra
        self.foreign_rows += len(compared.foreign)
        self.repeated += compared.repeated
        self._foreign = np.sort(np.concatenate([self._foreign, compared.foreign]))[: self._shown]
        pairs = np.concatenate([self._doubled, compared.doubled])
        self._doubled = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))][: 2 * self._shown]

    def kinds(self, first_row: int, rows: int) -> U8:
        """Returns the kinds of consecutive rows; later rows of an id have kind 0 (OK)."""
        return np.array(self._kinds[first_row : first_row + rows])

    def change(self, rows: I64, kind: FindingKind) -> None:
        """Changes the kind of the given input rows."""
        for old, count in enumerate(np.bincount(self._kinds[rows], minlength=len(FindingKind)).tolist()):
            self.counts[FindingKind(old)] -= count
        self._kinds[rows] = kind
        self.counts[kind] += len(rows)

    def first_rows(self, kind: FindingKind) -> list[int]:
        """Returns the first input rows of a kind, at most `shown`."""
        rows: list[int] = []
        for start in range(0, self._rows, _CHUNK):
            at = np.flatnonzero(self._kinds[start : min(start + _CHUNK, self._rows)] == kind)
            rows += (start + at[: self._shown - len(rows)]).tolist()
            if len(rows) >= self._shown:
                break
        return rows

    def places_of_doubled(self, row: int) -> list[int]:
        """Returns the output row codes of a doubled id, given its input row; incomplete or empty beyond the shown
        number.
        """
        row_codes: list[int] = self._doubled[self._doubled[:, 0] == row, 1].tolist()
        return row_codes

    def foreign_places(self) -> list[int]:
        """Returns the first row codes of foreign rows, at most `shown`."""
        row_codes: list[int] = self._foreign.tolist()
        return row_codes
