"""Writes a record of each duplicate to a topic, for investigations of their causes; answers never wait for it.

A request only adds a few arrays to a queue with a bounded length and rate. A separate task converts them to records and
writes them. Slow or unavailable brokers lose records, which are counted, but delay no answer.
"""

import asyncio
import json
from collections import deque
from collections.abc import Iterator

from oncegate.core.causes import Cause
from oncegate.engine.failures import error_fields
from oncegate.engine.quotas import Bucket
from oncegate.index.claims.firsts import Seen
from oncegate.ports import Clock, DuplicateTopic, NotTold, Observer

# Ten seconds of the default rate, as long as brokers take to elect a leader. Some megabytes of arrays and names.
QUEUED_MAX = 10_000
# Records per write: some 2 ms of the event loop to make, 80 KB to send.
WRITTEN_AT_ONCE = 256
# Pause after a failed write; new duplicates wait in the queue.
PAUSE_MS = 1_000
# Timeout for the queued records when the gateway closes.
CLOSING_MS = 2_000
# written; left_out: over the limit of the rate or the queue; failed: refused by the topic.
WRITTEN, LEFT_OUT, FAILED = OUTCOMES = ("written", "left_out", "failed")


class DuplicateLogs:
    """The queue of a gateway's duplicates, and the task that writes it. outcomes: counts by `OUTCOMES`."""

    def __init__(self, topic: DuplicateTopic, clock: Clock, observer: Observer, per_second: int) -> None:
        self._topic, self._clock, self._observer = topic, clock, observer
        self._per_second, self._rate = per_second, Bucket(per_second, clock)
        self._queue: deque[tuple[str, Seen]] = deque()
        self._queued = 0
        self._filled = asyncio.Event()
        self._is_failing = self._is_closing = False
        self.outcomes = dict.fromkeys(OUTCOMES, 0)
        self._task = asyncio.create_task(self._run(), name="duplicates")

    def of(self, namespace: str) -> "DuplicateLog":
        """Returns the log of one namespace."""
        return DuplicateLog(self, namespace)

    @property
    def room(self) -> int:
        """Tells how many of one request would be taken now."""
        return 0 if self._rate.wait_ms() else min(self._per_second, QUEUED_MAX - self._queued)

    def add(self, namespace: str, seen: Seen | None, count: int) -> None:
        """Queues the details of duplicates that were answered. `count` includes those without details, which count as
        left out.

        Leaves out and counts all of them if the queue is full.
        """
        described = 0 if seen is None else len(seen.ids)
        if seen is None or self._queued + described > QUEUED_MAX:
            self.outcomes[LEFT_OUT] += count
            return
        self.outcomes[LEFT_OUT] += count - described
        parts = (seen.part(at, at + WRITTEN_AT_ONCE) for at in range(0, described, WRITTEN_AT_ONCE))
        self._queue.extend((namespace, part) for part in parts)
        self._queued += described
        self._rate.take(described)
        self._filled.set()

    async def close(self) -> None:
        """Writes the queued records for at most `CLOSING_MS`; counts the remaining records as failed."""
        self._is_closing = True
        self._filled.set()
        await asyncio.wait([self._task], timeout=CLOSING_MS / 1_000)
        self._task.cancel()
        await asyncio.wait([self._task])
        self.outcomes[FAILED] += self._queued

    async def _run(self) -> None:
        while not (self._is_closing and (self._is_failing or not self._queue)):
            await self._filled.wait()
            self._filled.clear()
            while self._queue and not (self._is_closing and self._is_failing):
                await self._write(self._taken())

    def _taken(self) -> list[tuple[bytes, bytes]]:
        """Removes the records of the next write from the queue."""
        records: list[tuple[bytes, bytes]] = []
        while self._queue and len(records) + len(self._queue[0][1].ids) <= WRITTEN_AT_ONCE:
            namespace, seen = self._queue.popleft()
            self._queued -= len(seen.ids)
            records += records_of(namespace, seen)
        return records

    async def _write(self, records: list[tuple[bytes, bytes]]) -> None:
        try:
            await self._topic.write(records)
        except Exception as error:  # unexpected errors too: nothing depends on these records
            self.outcomes[FAILED] += len(records)
            if not self._is_failing:
                told = {"detail": str(error)} if isinstance(error, NotTold) else error_fields(error)
                self._observer.event("duplicates_not_told", **told)
            self._is_failing = True
            await self._clock.sleep_ms(PAUSE_MS)
        except BaseException:
            self.outcomes[FAILED] += len(records)
            raise
        else:
            self._is_failing = False
            self.outcomes[WRITTEN] += len(records)


class DuplicateLog:
    """The log of one namespace, which adds to its gateway's queue."""

    def __init__(self, logs: DuplicateLogs, namespace: str) -> None:
        self._logs, self._namespace = logs, namespace

    @property
    def room(self) -> int:
        """Tells how many of one request would be taken now."""
        return self._logs.room

    def add(self, seen: Seen | None, count: int) -> None:
        """Queues the details of `count` answered duplicates; see `DuplicateLogs.add`."""
        self._logs.add(self._namespace, seen, count)


def records_of(namespace: str, seen: Seen) -> Iterator[tuple[bytes, bytes]]:
    """Yields one record per duplicate, with the fingerprint in hex as key and a JSON object as value.

    Records contain no ids, tokens or claim ids: an id may be personal data, and a claim id allows completing the claim.
    """
    columns = (seen.causes, seen.ages_ms, seen.positions, seen.topics)
    rows = zip(seen.ids, *(one.tolist() for one in columns), strict=True)
    for fingerprint, cause, age_ms, position, topic in rows:
        printed = fingerprint.tobytes().hex()
        record = {
            "namespace": namespace,
            "fingerprint": printed,
            "cause": Cause(cause).name.lower(),
            "answered_ms": seen.wall_ms,
            "age_ms": age_ms if age_ms >= 0 else None,
            "first": {"position": position if position >= 0 else None, "topic": seen.names.get(topic)},
        }
        yield printed.encode(), json.dumps(record, separators=(",", ":")).encode()
