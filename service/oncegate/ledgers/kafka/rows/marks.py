"""Builds the headers with which a reader of a Kafka topic can verify that no record is missing or written twice.

Each record has all of them, in binary; numbers are big-endian, as in Kafka's own format:

oncegate-ns        the namespace's name, UTF-8
oncegate-producer  the producer's name, UTF-8
oncegate-epoch     the producer's epoch, 8 bytes, unsigned
oncegate-seq       the record's sequence, 8 bytes, unsigned
oncegate-digest    the payload's digest, 4 bytes, little-endian as in the ledger; absent for rows without one

The row's own headers come first. A row must not have a header whose name begins with this prefix.

Deleting and recreating a topic changes its id. Concurrent callers share one request for the ids of topics. A request
sent before a call is not used for it, since the topic may have been recreated in between.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any

import numpy as np

from oncegate.arraytypes import I64, U8
from oncegate.core.errors import BadRequest
from oncegate.ledgers.kafka.record_batch import Field, RowHeaders
from oncegate.ledgers.uncancelled import look_at_the_error
from oncegate.ports import Origin

_PREFIX = "oncegate-"
NAMESPACE, PRODUCER = f"{_PREFIX}ns", f"{_PREFIX}producer"
EPOCH, SEQUENCE, DIGEST = f"{_PREFIX}epoch", f"{_PREFIX}seq", f"{_PREFIX}digest"
Marks = list[tuple[str, Field]]


def marks_of(origin: Origin | None, at: int, rows: int) -> Marks:
    """Returns names and fields for `record_batch.Records.headers`, with `rows` values each.

    `at`: index of the first row among those of `origin`. `origin` None: no headers.
    """
    if origin is None:
        return []
    found = [
        (NAMESPACE, _same(origin.namespace.encode(), rows)),
        (PRODUCER, _same(origin.producer.encode(), rows)),
        (EPOCH, _same(origin.epoch.to_bytes(8, "big"), rows)),
        (SEQUENCE, _of_one_size(_sequences(origin, at, rows).astype(">u8").view(np.uint8).reshape(rows, 8))),
    ]
    if origin.digests is None:
        return found
    digests = origin.digests[at : at + rows].astype("<u4").view(np.uint8).reshape(rows, 4)
    return [*found, (DIGEST, _of_one_size(digests))]


def check_names(own: RowHeaders | None) -> None:
    """Raises BadRequest, naming the row, if the name of a header starts with the gateway's prefix."""
    if own is None:
        return
    items = np.flatnonzero(_begins(own.names, _PREFIX.encode()))
    # The items of rows are consecutive; items of a null row belong to no row.
    rows = np.searchsorted(own.starts + own.counts, items, side="right")
    is_somebodys = rows < len(own.starts)
    is_somebodys[is_somebodys] = own.starts[rows[is_somebodys]] <= items[is_somebodys]
    if is_somebodys.any():
        at = int(np.flatnonzero(is_somebodys)[0])
        start, length = int(own.names.starts[items[at]]), int(own.names.lengths[items[at]])
        name = own.names.data[start : start + length].tobytes().decode(errors="replace")
        raise BadRequest(
            f"row {int(rows[at])} has a header {name[:80]!r}, and with record_headers names that begin with {_PREFIX} "
            "are the gateway's: take another name; nothing was written"
        )


def _begins(names: Field, prefix: bytes) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Returns which names start with the prefix: bool (m,)."""
    found = names.lengths >= len(prefix)
    places = names.starts[found][:, None] + np.arange(len(prefix))
    found[found] = (names.data[places] == np.frombuffer(prefix, np.uint8)).all(axis=1)
    return np.asarray(found, np.bool_)


def _sequences(origin: Origin, at: int, rows: int) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    if origin.sequences is not None:
        return origin.sequences[at : at + rows]
    return np.arange(rows, dtype=np.uint64) + np.uint64(origin.first + at)


def _same(value: bytes, rows: int) -> Field:
    return Field(np.frombuffer(value, np.uint8), np.zeros(rows, np.int64), np.full(rows, len(value), np.int64))


def _of_one_size(values: U8) -> Field:
    rows, size = values.shape
    starts: I64 = np.arange(rows) * size
    return Field(np.ascontiguousarray(values).reshape(-1), starts, np.full(rows, size, np.int64))


Ask = Callable[[Collection[str]], Coroutine[Any, Any, Mapping[str, bytes]]]


class Identities:
    """Lookup of topic ids that are never stale: the request is sent after the call, and concurrent calls share it."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._one = asyncio.Lock()
        self._next: asyncio.Task[Mapping[str, bytes]] | None = None
        self._wanted: set[str] = set()

    async def of(self, topics: Collection[str]) -> Mapping[str, bytes]:
        """Returns the current ids, 16 bytes each, of these topics;
        omits topics that do not exist. Raises what `ask` raises.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._asked())
            self._next.add_done_callback(look_at_the_error)
        self._wanted.update(topics)
        topic_ids = await asyncio.shield(self._next)
        return {topic: topic_ids[topic] for topic in topics if topic in topic_ids}

    async def _asked(self) -> Mapping[str, bytes]:
        async with self._one:
            wanted, self._wanted, self._next = self._wanted, set(), None
            return await self._ask(wanted)
