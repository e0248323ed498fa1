"""The record of what a lane has written, committed with its rows: the gateway reads it and enters it. No I/O.

version u8 = 1 | ledger 16 bytes | lane u64 | spans u32 | each: first u64, last u64, both of them written
"""

import struct
from collections.abc import Sequence

_HEAD = struct.Struct(">B16sQI")
_SPAN = struct.Struct(">QQ")
_VERSION = 1
SPANS_MAX = 10_000  # as the gateway reads at most


class CopiedSpans:
    """Collects sequences, each greater than the one before, as inclusive spans."""

    def __init__(self) -> None:
        self.spans: list[list[int]] = []
        self.count = 0

    def __len__(self) -> int:
        return len(self.spans)

    def add(self, sequence: int) -> None:
        """Take one more."""
        if self.spans and self.spans[-1][1] + 1 == sequence:
            self.spans[-1][1] = sequence
        else:
            self.spans.append([sequence, sequence])
        self.count += 1


def lane_record(ledger: bytes, lane: int, spans: Sequence[Sequence[int]]) -> bytes:
    """The bytes of a record; spans are sorted, disjoint, at least one."""
    head = _HEAD.pack(_VERSION, ledger, lane, len(spans))
    return head + b"".join(_SPAN.pack(first, last) for first, last in spans)
