"""Digests of the payloads of sequences, kept until they are acked: 12 bytes each.

Objects are immutable, so an undo can restore the earlier one.
"""

from dataclasses import dataclass

import numpy as np

from oncegate.arraytypes import U32, U64
from oncegate.index.producers.intervals import count_of


@dataclass(frozen=True, eq=False)
class Digests:
    """The digest of each of `sequences`, uint64[k], ascending. digests: uint32[k], none of them 0."""

    sequences: U64
    digests: U32

    @classmethod
    def empty(cls) -> "Digests":
        """Returns the empty object, which is shared since it never changes."""
        return _EMPTY

    def __len__(self) -> int:
        return len(self.sequences)

    def differ(self, sequences: U64, digests: U32) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
        """Returns for each of `sequences` whether its recorded digest differs from the one in `digests`, uint32[n]."""
        if not len(self):
            return np.zeros(len(sequences), np.bool_)
        at = np.minimum(np.searchsorted(self.sequences, sequences), len(self) - 1)
        differ: np.ndarray[tuple[int], np.dtype[np.bool_]] = self.sequences[at] == sequences
        differ &= self.digests[at] != digests
        return differ

    def replaced(self, fresh: U64, taken: U64, digests: U32) -> "Digests":
        """Returns a copy in which the spans `fresh` and `taken`, shape (m, 2), have new digests.

        digests: in the order of `fresh`, then of `taken`; empty: their digests are unknown.
        """
        if not len(self) and not len(digests):
            return self
        sequences = np.concatenate((sequences_of(fresh), sequences_of(taken)))
        if len(taken):
            order = np.argsort(sequences)
            sequences, digests = sequences[order], digests[order] if len(digests) else digests
        begin, end = np.searchsorted(self.sequences, (sequences[0], sequences[-1] + np.uint64(1)))
        kept = ~np.isin(self.sequences[begin:end], sequences)
        between, of_between = self.sequences[begin:end][kept], self.digests[begin:end][kept]
        if len(digests):
            at = np.searchsorted(between, sequences)
            between, of_between = np.insert(between, at, sequences), np.insert(of_between, at, digests)
        return Digests(
            np.concatenate((self.sequences[:begin], between, self.sequences[end:])),
            np.concatenate((self.digests[:begin], of_between, self.digests[end:])),
        )

    def above(self, watermark: int) -> "Digests":
        """Returns the digests above a sequence."""
        begin = int(np.searchsorted(self.sequences, np.uint64(watermark), "right"))
        return Digests(self.sequences[begin:].copy(), self.digests[begin:].copy()) if begin else self


_EMPTY = Digests(np.empty(0, np.uint64), np.empty(0, np.uint32))


def sequences_of(spans: U64) -> U64:
    if len(spans) == 1:
        return np.arange(spans[0, 0], spans[0, 1] + np.uint64(1), dtype=np.uint64)
    lengths = (spans[:, 1] - spans[:, 0] + np.uint64(1)).astype(np.int64)
    before = np.cumsum(lengths) - lengths
    steps = np.arange(count_of(spans)) - np.repeat(before, lengths)
    return np.repeat(spans[:, 0], lengths) + steps.astype(np.uint64)
