"""Saves the producer index as snapshot pieces, and restores it. The pieces replace old entries in a compacted ledger.

producers/<n>  some of the producers
drivers/<n>    some of the drivers
producers      the rest, after the others
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import islice
from typing import Any

import msgspec
import numpy as np

from oncegate.index.part import IndexPart, Steps, whole
from oncegate.index.producers.apply import apply
from oncegate.index.producers.digests import Digests
from oncegate.index.producers.intervals import Intervals
from oncegate.index.producers.store import Driver, ProducerCall, ProducerState, ProducerStore
from oncegate.moment import MomentCopy

# Fields that are only in memory, and fields that are saved in a form of their own.
_OTHER_FIELDS = (
    "lease_until_ms",
    "quiet_call",
    "calls",
    "intervals",
    "past",
    "token",
    "writer",
    "writer_before",
    "digests",
)
# Producers copied and encoded in one step of a few milliseconds, or intervals of that many bytes.
_PER_PIECE, _PIECE_BYTES = 200, 1 << 20

# Name, writer of the epoch in force, and writer of the previous one: a separate piece, which older versions ignore.
ProducerWriters = list[tuple[str, bytes, bytes]]
_encode = msgspec.msgpack.Encoder().encode
_PLAIN_FIELDS = [field.name for field in fields(ProducerState) if field.name not in _OTHER_FIELDS]


@dataclass(frozen=True, slots=True)
class ProducerSnapshot:
    """A producer in a snapshot.

    held: three little-endian uint64 columns, first, last, label, one after the other.
    digests: sequences of 8 bytes, then their digests of 4, little-endian.
    """

    values: dict[str, Any]
    past: list[bytes]
    token: bytes
    calls: list[tuple[int, ProducerCall]]
    held: bytes
    digests: bytes = b""


@dataclass(frozen=True, slots=True)
class ProducersSnapshot:
    """The content of the last piece: the number of takeovers, and of pieces before it."""

    takeovers: int
    pieces: int


def snapshot_steps(store: ProducerStore) -> Steps:
    """Creates a snapshot of the current state, without leases, in steps; entries may be applied between steps.

    Exhaust or close the generator.
    """
    producers = MomentCopy(store.producers, lambda _, producer: _snapshot(producer))
    drivers = MomentCopy(store.drivers, lambda _, driver: replace(driver))
    store.saved_producers, store.saved_drivers = producers, drivers
    steps = _steps(store, producers, drivers, store.takeovers)
    # It has begun, so closing or discarding it releases the store.
    next(steps)
    return steps


def _steps(
    store: ProducerStore,
    producers: MomentCopy[str, ProducerState, ProducerSnapshot],
    drivers: MomentCopy[str, Driver, Driver],
    takeovers: int,
) -> Steps:
    pieces = 0
    try:
        yield []
        while some := _some(producers):
            yield [(f"producers/{pieces}", _encode(some))]
            pieces += 1
        while few := list(islice(drivers, _PER_PIECE)):
            yield [(f"drivers/{pieces}", _encode(few))]
            pieces += 1
    finally:
        if store.saved_producers is producers:
            store.saved_producers = store.saved_drivers = None
    yield [("producers", _encode(ProducersSnapshot(takeovers, pieces)))]


def _some(producers: Iterator[ProducerSnapshot]) -> list[ProducerSnapshot]:
    """Returns as many of the next producers as can be encoded in a few milliseconds."""
    some, size_bytes = list[ProducerSnapshot](), 0
    for one in producers:
        some.append(one)
        size_bytes += len(one.held) + len(one.digests)
        if len(some) == _PER_PIECE or size_bytes >= _PIECE_BYTES:
            break
    return some


def producer_writers(store: ProducerStore) -> ProducerWriters:
    """Returns the known writers of the producers' registrations."""
    every = store.producers.values()
    return [(one.name, one.writer, one.writer_before) for one in every if one.writer or one.writer_before]


def restore_writers(store: ProducerStore, writers: ProducerWriters) -> None:
    """Restores the writers of registrations after the producers. Raises ValueError."""
    for name, writer, before in writers:
        if name not in store.producers:
            raise ValueError(f"a writer belongs to the missing producer {name}")
        producer = store.producers[name]
        producer.writer, producer.writer_before = writer, before


def parts(store: ProducerStore) -> tuple[IndexPart, IndexPart]:
    """Returns two parts of a shard's index: producers and drivers, and their writers."""

    def count() -> dict[str, int]:
        return {"producers": len(store.producers), "drivers": len(store.drivers)}

    steps, reader = partial(snapshot_steps, store), partial(ProducersReader, store)
    save, load = partial(producer_writers, store), partial(restore_writers, store)
    return (
        IndexPart(("producers", "drivers"), steps, reader, partial(apply, store), count),
        whole("producer_writers", ProducerWriters, save, load),
    )


class ProducersReader:
    """Restores an empty store from its pieces, in their order. Call `reset_leases` afterwards.

    Raises ValueError if the pieces do not belong together.
    """

    def __init__(self, store: ProducerStore) -> None:
        self._store = store
        self._taken = self._producers = 0
        self._whole = False

    def take(self, what: str, data: bytes) -> None:
        kind, _, number = what.partition("/")
        if not number:
            self._end(msgspec.msgpack.decode(data, type=ProducersSnapshot))
            return
        self._taken += 1
        if kind == "drivers":
            self._store.drivers |= {one.name: one for one in msgspec.msgpack.decode(data, type=list[Driver])}
            return
        for one in msgspec.msgpack.decode(data, type=list[ProducerSnapshot]):
            self._store.put(_restored(one))
            self._producers += 1

    def finish(self) -> None:
        """Checks that the last piece was read. Raises ValueError."""
        if not self._whole:
            raise ValueError("the saved index has no producers")

    def _end(self, rest: ProducersSnapshot) -> None:
        if rest.pieces != self._taken:
            raise ValueError(f"{self._taken} pieces of producers instead of {rest.pieces}")
        if {len(self._store.by_number), len(self._store.producers)} != {self._producers}:
            raise ValueError("two producers have one name or number")
        self._store.takeovers, self._whole = rest.takeovers, True


def _snapshot(producer: ProducerState) -> ProducerSnapshot:
    values = {name: getattr(producer, name) for name in _PLAIN_FIELDS}
    intervals = producer.intervals
    columns = (intervals.first, intervals.last, intervals.label)
    packed = b"".join(column.astype("<u8").tobytes() for column in columns)
    calls = [(number, replace(call)) for number, call in producer.calls.items()]
    digests = producer.digests.sequences.astype("<u8").tobytes() + producer.digests.digests.astype("<u4").tobytes()
    return ProducerSnapshot(values, list(producer.past), producer.token, calls, packed, digests)


def _restored(snapshot: ProducerSnapshot) -> ProducerState:
    if len(snapshot.held) % 24:
        raise ValueError(f"{len(snapshot.held)} bytes are not three columns of uint64")
    first, last, label = np.frombuffer(snapshot.held, "<u8").astype(np.uint64).reshape(3, -1)
    if len(first) and not (bool((first <= last).all()) and bool((last[:-1] < first[1:]).all())):
        raise ValueError("intervals out of order")
    rest: dict[str, Any] = {"past": tuple(snapshot.past), "token": snapshot.token, "calls": dict(snapshot.calls)}
    digests = _restored_digests(snapshot.digests)
    return ProducerState(**snapshot.values, **rest, intervals=Intervals(first, last, label), digests=digests)


def _restored_digests(packed: bytes) -> Digests:
    count, rest = divmod(len(packed), 12)
    if rest:
        raise ValueError(f"{len(packed)} bytes are not sequences of 8 bytes with digests of 4")
    sequences = np.frombuffer(packed, "<u8", count).astype(np.uint64)
    if not bool((sequences[:-1] < sequences[1:]).all()):
        raise ValueError("digests out of order")
    return (
        Digests(sequences, np.frombuffer(packed, "<u4", count, 8 * count).astype(np.uint32))
        if count
        else Digests.empty()
    )
