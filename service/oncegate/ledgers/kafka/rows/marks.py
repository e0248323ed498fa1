"""Makes the headers by which a reader of a Kafka topic can check what the gateway wrote: once each, and all of it.

Each stands on every record, small and binary; numbers are big-endian, as Kafka's own:

oncegate-ns        the namespace's name, UTF-8
oncegate-producer  the producer's name, UTF-8
oncegate-epoch     the producer's epoch, 8 bytes, unsigned
oncegate-seq       the record's sequence, 8 bytes, unsigned
oncegate-digest    the payload's digest, as many bytes as it has; left out where rows come without one
"""

from dataclasses import dataclass

import numpy as np

from oncegate.arraytypes import I64, U8
from oncegate.ledgers.kafka.record_batch import Field

NAMESPACE, PRODUCER = "oncegate-ns", "oncegate-producer"
EPOCH, SEQUENCE, DIGEST = "oncegate-epoch", "oncegate-seq", "oncegate-digest"


@dataclass(frozen=True, slots=True)
class Origin:
    """Says who wrote n rows, and which rows of theirs they are.

    `sequences`: int64 (n,), from 0 on. `digests`: uint8 (n, size), or None where rows come without.
    """

    namespace: str
    producer: str
    epoch: int
    sequences: I64
    digests: U8 | None = None


def marks_of(origin: Origin) -> list[tuple[str, Field]]:
    """Returns the headers by name, as `record_batch.Records.headers` takes them; each has n values."""
    rows = len(origin.sequences)
    found = [
        (NAMESPACE, _same(origin.namespace.encode(), rows)),
        (PRODUCER, _same(origin.producer.encode(), rows)),
        (EPOCH, _same(origin.epoch.to_bytes(8, "big"), rows)),
        (SEQUENCE, _of_one_size(origin.sequences.astype(">u8").view(np.uint8).reshape(rows, 8))),
    ]
    return found if origin.digests is None else [*found, (DIGEST, _of_one_size(origin.digests))]


def _same(value: bytes, rows: int) -> Field:
    return Field(np.frombuffer(value, np.uint8), np.zeros(rows, np.int64), np.full(rows, len(value), np.int64))


def _of_one_size(values: U8) -> Field:
    rows, size = values.shape
    return Field(np.ascontiguousarray(values).reshape(-1), np.arange(rows) * size, np.full(rows, size, np.int64))
