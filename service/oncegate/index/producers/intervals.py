"""Represents sequences as labelled inclusive intervals: sorted, disjoint, and merged with neighbours of the same label.

Intervals are immutable, so an undo can restore an earlier object. A sequence is at most 2^64 - 2.
"""

from dataclasses import dataclass

import numpy as np

from oncegate.arraytypes import U64

_ONE = np.uint64(1)


@dataclass(frozen=True, eq=False)
class Intervals:
    """Sorted, disjoint intervals with labels. first, last, label: uint64[k]; no label is 0."""

    first: U64
    last: U64
    label: U64

    @classmethod
    def empty(cls) -> "Intervals":
        """Returns the empty object, which is shared since it never changes."""
        return _EMPTY

    def __len__(self) -> int:
        return len(self.first)

    def find(self, sequences: U64) -> U64:
        """Returns the label of each of `sequences`, uint64[n]; 0 if no interval contains it."""
        if not len(self):
            return np.zeros(len(sequences), np.uint64)
        at = np.searchsorted(self.first, sequences, "right") - 1
        inside = (at >= 0) & (sequences <= self.last[at])
        return np.where(inside, self.label[at], np.uint64(0))

    def painted(self, spans: U64, label: int) -> "Intervals":
        """Sets the label of `spans`, shape (m, 2), sorted and disjoint. Costs only the intervals that they touch."""
        if not len(spans):
            return self
        low, high = spans[0, 0], spans[-1, 1] + _ONE
        begin = int(np.searchsorted(self.last, low - _ONE if low else low))
        end = int(np.searchsorted(self.first, high, "right"))
        middle = _repainted(self._part(begin, end), spans, label)
        parts = (self._part(0, begin), middle, self._part(end, len(self)))
        return Intervals(*(np.concatenate([getattr(part, name) for part in parts]) for name in _FIELDS))

    def _part(self, begin: int, end: int) -> "Intervals":
        return Intervals(self.first[begin:end], self.last[begin:end], self.label[begin:end])

    def relabelled(self, label: U64) -> "Intervals":
        """Returns the intervals with new labels, uint64[k], and merges neighbours of the same label."""
        return _joined(self.first, self.last, label)

    def above(self, watermark: int) -> "Intervals":
        """Returns the intervals above a sequence."""
        begin = int(np.searchsorted(self.last, np.uint64(watermark), "right"))
        rest = self._part(begin, len(self))
        if not len(rest) or int(rest.first[0]) > watermark:
            return rest
        first = rest.first.copy()
        first[0] = watermark + 1
        return Intervals(first, rest.last, rest.label)

    def spans(self, chosen: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> U64:
        """Returns the chosen intervals, `chosen` bool[k], as spans of shape (m, 2)."""
        return np.stack((self.first[chosen], self.last[chosen]), axis=1)


_FIELDS = ("first", "last", "label")
_EMPTY = Intervals(*(np.empty(0, np.uint64) for _ in _FIELDS))


def _repainted(part: Intervals, spans: U64, label: int) -> Intervals:
    """Like `Intervals.painted`, on only the intervals that the spans touch."""
    edges = (part.first, part.last + _ONE, spans[:, 0], spans[:, 1] + _ONE)
    points = np.unique(np.concatenate(edges))
    first, last = points[:-1], points[1:] - _ONE
    at = np.searchsorted(spans[:, 0], first, "right") - 1
    inside = (at >= 0) & (first <= spans[at, 1])
    return _joined(first, last, np.where(inside, np.uint64(label), part.find(first)))


def _joined(first: U64, last: U64, label: U64) -> Intervals:
    """Drops the pieces with label 0 and merges adjacent pieces of the same label; the pieces are sorted and
    disjoint.
    """
    is_labelled = label != 0
    first, last, label = first[is_labelled], last[is_labelled], label[is_labelled]
    if not len(first):
        return Intervals.empty()
    begins = np.ones(len(first), np.bool_)
    begins[1:] = (first[1:] != last[:-1] + _ONE) | (label[1:] != label[:-1])
    ends = np.append(begins[1:], True)
    return Intervals(first[begins], last[ends], label[begins])


def spans_of(sequences: U64) -> U64:
    """Returns strictly increasing sequences, uint64[n], as inclusive spans, shape (m, 2)."""
    if not len(sequences):
        return np.empty((0, 2), np.uint64)
    begins = np.ones(len(sequences), np.bool_)
    begins[1:] = sequences[1:] != sequences[:-1] + _ONE
    return np.stack((sequences[begins], sequences[np.append(begins[1:], True)]), axis=1)


def count_of(spans: U64) -> int:
    """Counts the sequences in the spans, shape (m, 2)."""
    return int((spans[:, 1] - spans[:, 0]).sum()) + len(spans)


def raw_spans(raw: bytes) -> U64:
    """Returns an entry's spans as a read-only array."""
    return np.frombuffer(raw, "<u8").reshape(-1, 2)


def flat(pairs: "dict[int, int]") -> bytes:
    """Returns pairs of numbers in the form that entries use."""
    return np.array(list(pairs.items()), "<u8").tobytes()
