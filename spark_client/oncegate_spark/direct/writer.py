"""Writes rows of one lane, again and again: each call is one transaction, tried until its end is known."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

from oncegate_spark.direct.transaction import TIMEOUT_MS, DirectRow, LaneTransaction, checked_config, transaction_time
from oncegate_spark.errors import BadId, InDoubt, SinkRefused, Unavailable
from oncegate_spark.protocol.answers import OpenedLane
from oncegate_spark.sync.gateway import Gateway

TRIES_MAX = 4  # brokers that are started again answer within some seconds; a longer outage is for the caller to see
PAUSE_MS = 200


@dataclass(frozen=True)
class DirectWritten:
    """Counts what became of rows. written: by this call. duplicates: they were written before; a try of this call whose
    answer was lost counts there."""

    written: int
    duplicates: int


class DirectWriter:
    """Writes one producer's rows into a topic, by one thread. Two that live at once fence each other: use one.

    producer: names a part of the source, the same at every run, whose records are numbered. config: settings of
    librdkafka's, for brokers that ask who one is. timeout_ms: of each call of Kafka. transaction_ms: after which
    brokers abort a transaction, bounded by their `transaction.max.timeout.ms`; None: 60,000, or `timeout_ms` if that is
    more. BadOption where it is less than `timeout_ms`.

    source_id: of what the sequences number, as Kafka's topic id; where another one is recorded, SourceReplaced.

    Promise: each sequence once, for who reads committed records, whatever dies or is lost in between, as long as the
    namespace is there. RELIABILITY.md of Oncegate says what is not promised.
    """

    def __init__(
        self,
        gateway: Gateway,
        topic: str,
        producer: str,
        *,
        config: Mapping[str, Any] | None = None,
        timeout_ms: int = TIMEOUT_MS,
        transaction_ms: int | None = None,
        tries_max: int = TRIES_MAX,
        source_id: str | None = None,
    ) -> None:
        self._gateway, self._target = gateway, (topic, producer)
        self._config = dict(checked_config(config or {}))
        transaction_ms = transaction_time(transaction_ms, timeout_ms, self._config)
        self._times = {"timeout_ms": timeout_ms, "transaction_ms": transaction_ms}
        self._tries_max, self._source_id = tries_max, source_id
        self._lane: OpenedLane | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Nothing is held between calls."""

    def write(self, rows: Sequence[DirectRow], acked: int | None = None) -> DirectWritten:
        """Write rows of rising sequences in one transaction, those that are not written yet. Repeat it with the same.

        acked: below the first of them; the source brings no sequence up to this one any more. The holes below it are
        forgotten, so that a lane whose source has many is known by one number; a row that comes for one is dropped.

        Raises Fenced: a later writer has the lane; InDoubt: unknown, after all tries; SinkRefused, Unavailable,
        Refused and what the gateway's calls raise: as their text says. BadId: nothing was written.
        """
        for before, row in pairwise(rows):
            if row.sequence <= before.sequence:
                raise BadId(f"sequence {row.sequence} follows {before.sequence}: they rise; nothing was written")
        if not rows:
            return DirectWritten(0, 0)
        tries = 0
        while True:
            try:
                return self._once(rows, acked)
            except (InDoubt, SinkRefused, Unavailable):
                tries += 1
                if tries >= self._tries_max:
                    raise
                self._gateway.clock.sleep_ms(PAUSE_MS << tries)

    def _once(self, rows: Sequence[DirectRow], acked: int | None) -> DirectWritten:
        if self._lane is None:
            self._lane = self._gateway.open_lane(*self._target, self._source_id)
        with LaneTransaction(self._gateway, self._target, self._lane, self._config, **self._times) as transaction:
            transaction.start()
            written = transaction.ask(rows[0].sequence, rows[-1].sequence, acked)
            transaction.add(missing(rows, written))
            count = transaction.commit()
        return DirectWritten(count, len(rows) - count)


def missing(rows: Sequence[DirectRow], written: Sequence[tuple[int, int]]) -> Iterator[DirectRow]:
    """The rows whose sequences lie in none of the spans; both are in order."""
    spans = iter(written)
    span = next(spans, None)
    for row in rows:
        while span is not None and span[1] < row.sequence:
            span = next(spans, None)
        if span is None or row.sequence < span[0]:
            yield row
