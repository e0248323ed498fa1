"""The record that a client commits with its rows: which lane of which ledger, and which sequences.

version u8 = 1 | ledger 16 bytes | lane u64 | spans u32 | each span: first u64, last u64, both inclusive

Big-endian. Spans are sorted, disjoint and never empty. The client's side is `oncegate_spark.direct.transaction`;
tests/golden/kafka/lane_records.json checks that both agree.
"""

import struct
from dataclasses import dataclass

import numpy as np

from oncegate.arraytypes import U64
from oncegate.core.producers import SEQUENCE_MAX

_HEAD = struct.Struct(">B16sQI")
_VERSION = 1
_SPAN_BYTES = 16
# Keeps a record within one message of Kafka's default size. Sequences with more holes must be written by ids.
SPANS_MAX = 10_000


@dataclass(frozen=True, eq=False)
class LaneRecord:
    """The sequences that were written in a lane of a ledger; `spans` has shape (k, 2)."""

    ledger: bytes
    lane: int
    spans: U64


def decode_record(data: bytes) -> LaneRecord | None:
    """Decodes a lane record; returns None if it is invalid or of a different version."""
    if len(data) < _HEAD.size:
        return None
    version, ledger, lane, count = _HEAD.unpack_from(data)
    if version != _VERSION or not 0 < count <= SPANS_MAX or len(data) != _HEAD.size + count * _SPAN_BYTES:
        return None
    spans = np.frombuffer(data, ">u8", offset=_HEAD.size).astype(np.uint64).reshape(-1, 2)
    first, last = spans[:, 0], spans[:, 1]
    in_order = bool((first <= last).all()) and bool((last[:-1] < first[1:]).all())
    return LaneRecord(ledger, lane, spans) if in_order and int(last[-1]) <= SEQUENCE_MAX else None
