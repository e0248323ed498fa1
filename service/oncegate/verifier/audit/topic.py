"""Rows of a Kafka topic as they were committed (`read_committed`), with the broker's or the writer's times."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from oncegate.verifier.audit.rows import AuditRows
from oncegate.verifier.audit.writers import numbers_of
from oncegate.verifier.sources.kafka_ids import IdsOf
from oncegate.verifier.sources.kafka_topic import KafkaTopic


class TopicRows:
    """Reads a topic from its beginning to where it ended at the start; a `Source`.

    `attempt`, `batch`: headers of records, "" for none.
    """

    has_writers: bool
    is_timed = True

    def __init__(self, url: str, ids_of: IdsOf, attempt: str, batch: str) -> None:
        self._ids_of, self._attempt, self._batch = ids_of, attempt, batch
        self._read: AuditRows | None = None
        self._topic = KafkaTopic(url, self._seen)
        self._bounds = self._topic.bounds()
        self.has_writers = bool(attempt or batch)

    @property
    def total(self) -> int | None:
        """Returns how many offsets there are, markers of transactions among them."""
        return sum(end - first for first, end in self._bounds)

    def rows(self) -> Iterator[AuditRows]:
        """Yields the committed records. Raises NotFound: nothing more comes, though the end is not reached."""
        for partition, (first, end) in enumerate(self._bounds):
            for _ in self._topic.parts(partition, first, end):
                assert self._read is not None, "each part is made of records that were seen"
                yield self._read

    def _seen(self, records: Sequence[Any]) -> pa.Table:
        ids = self._ids_of(records)
        times = np.array([record.timestamp for record in records], np.int64)
        attempts, batches = (
            numbers_of(_header(record, name) for record in records) for name in (self._attempt, self._batch)
        )
        self._read = AuditRows(ids, times, attempts, batches)
        return ids

    def close(self) -> None:
        """Lets go of the brokers."""
        self._topic.close()


def _header(record: Any, name: str) -> bytes | None:
    return next((value for key, value in record.headers if key == name), None) if name else None
