"""Writes rows of one lane; each call is one transaction, retried until its outcome is known."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

from oncegate_spark.direct.transaction import TIMEOUT_MS, DirectRow, LaneTransaction, checked_config, transaction_time
from oncegate_spark.errors import BadId, InDoubt, SinkRefused, Unavailable
from oncegate_spark.protocol.answers import OpenedLane
from oncegate_spark.sync.gateway import Gateway

TRIES_MAX = 4  # restarting brokers respond within seconds; longer outages are the caller's decision
PAUSE_MS = 200


@dataclass(frozen=True)
class DirectWritten:
    """Row counts of one write. `written`: by this call. `duplicates`: written before, also by an earlier try
    whose reply was lost.
    """

    written: int
    duplicates: int


class DirectWriter:
    """Writes one producer's rows into a topic, from one thread. Two live writers fence each other: use one.

    Args:
        producer: names a part of the source whose records are numbered, the same in every run
        config: librdkafka settings, such as those for authentication
        timeout_ms: of each Kafka call
        transaction_ms: transaction timeout, at least `timeout_ms`, at most the brokers' `transaction.max.timeout.ms`;
            None: 60,000, or `timeout_ms` if that is longer
        source_id: identity of the source, such as Kafka's topic id; raises SourceReplaced if another one is stored

    Guarantee: each sequence once for readers of committed records, whatever crashes or gets lost, as long as the
    namespace exists. RELIABILITY.md of Oncegate lists the exceptions.
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
        """Does nothing: no resource is open between calls."""

    def write(self, rows: Sequence[DirectRow], acked: int | None = None) -> DirectWritten:
        """Writes those rows that are not yet written, in one transaction; their sequences increase. Safe to repeat.

        `acked`: a sequence below the first row; the source delivers nothing up to it again. The gateway then forgets
        gaps below it, so that a source with many gaps needs one number; a later row for such a gap is dropped.

        Raises Fenced if a later writer owns the lane, InDoubt if the outcome is unknown after all tries, BadId if
        nothing was written, and SinkRefused, Unavailable, Refused and errors of the gateway's calls, whose message has
        the outcome.
        """
        for before, row in pairwise(rows):
            if row.sequence <= before.sequence:
                raise BadId(
                    f"sequence {row.sequence} follows {before.sequence}: they must increase; nothing was written"
                )
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
    """Yields the rows whose sequences are in none of the spans; both are in order."""
    spans = iter(written)
    span = next(spans, None)
    for row in rows:
        while span is not None and span[1] < row.sequence:
            span = next(spans, None)
        if span is None or row.sequence < span[0]:
            yield row
