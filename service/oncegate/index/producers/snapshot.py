"""Turns the index of producers into pieces, and back: what a compacted ledger holds in place of old entries.

producers/<n>  some of the producers
drivers/<n>    some of the drivers
producers      the rest, behind the others
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

# What lives in memory only, and what is saved in a form of its own.
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
# Copied and encoded in one step, in a few milliseconds: so many, or intervals of so many bytes.
_PER_PIECE, _PIECE_BYTES = 200, 1 << 20

# Name, writer of the epoch in force, and of the one before: a piece beside the others, which older builds pass over.
ProducerWriters = list[tuple[str, bytes, bytes]]
_encode = msgspec.msgpack.Encoder().encode
_PLAIN_FIELDS = [field.name for field in fields(ProducerState) if field.name not in _OTHER_FIELDS]


@dataclass(frozen=True, slots=True)
class ProducerSnapshot:
    """Describes one producer as a snapshot holds it.

    `held`: three little-endian uint64 columns, first, last, label, one after the other. `digests`: sequences
    of 8 bytes, then their digests of 4, little-endian.
    """

    values: dict[str, Any]
    past: list[bytes]
    token: bytes
    calls: list[tuple[int, ProducerCall]]
    held: bytes
    digests: bytes = b""


@dataclass(frozen=True, slots=True)
class ProducersSnapshot:
    """Holds what stands in no other piece: how many takeovers there were, and how many pieces came before."""

    takeovers: int
    pieces: int


def snapshot_steps(store: ProducerStore) -> Steps:
    """Makes pieces of everything that is known at the call, leases aside, in steps between which anything may change.

    To be gone through, or closed.
    """
    producers = MomentCopy(store.producers, lambda _, producer: _snapshot(producer))
    drivers = MomentCopy(store.drivers, lambda _, driver: replace(driver))
    store.saved_producers, store.saved_drivers = producers, drivers
    steps = _steps(store, producers, drivers, store.takeovers)
    # It has begun: closing it, or throwing it away, sets the store free.
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
    """The next producers, as many as are encoded in a few milliseconds."""
    some, size_bytes = list[ProducerSnapshot](), 0
    for one in producers:
        some.append(one)
        size_bytes += len(one.held) + len(one.digests)
        if len(some) == _PER_PIECE or size_bytes >= _PIECE_BYTES:
            break
    return some


def producer_writers(store: ProducerStore) -> ProducerWriters:
    """Returns who registered the producers, as far as they said it."""
    every = store.producers.values()
    return [(one.name, one.writer, one.writer_before) for one in every if one.writer or one.writer_before]


def restore_writers(store: ProducerStore, writers: ProducerWriters) -> None:
    """Restores who registered the producers, once these are there. Raises ValueError."""
    for name, writer, before in writers:
        if name not in store.producers:
            raise ValueError(f"a writer is of producer {name}, which is not there")
        producer = store.producers[name]
        producer.writer, producer.writer_before = writer, before


def parts(store: ProducerStore) -> tuple[IndexPart, IndexPart]:
    """Returns producers and drivers as a part of a shard's index, and their writers as another."""

    def count() -> dict[str, int]:
        return {"producers": len(store.producers), "drivers": len(store.drivers)}

    steps, reader = partial(snapshot_steps, store), partial(ProducersReader, store)
    save, load = partial(producer_writers, store), partial(restore_writers, store)
    return (
        IndexPart(("producers", "drivers"), steps, reader, partial(apply, store), count),
        whole("producer_writers", ProducerWriters, save, load),
    )


class ProducersReader:
    """Restores an empty store from its pieces, in their order; `reset_leases` is to follow.

    ValueError: they do not belong together.
    """

    def __init__(self, store: ProducerStore) -> None:
        self._store = store
        self._taken = self._producers = 0
        self._whole = False

    def take(self, what: str, data: bytes) -> None:
        """Takes the next piece in."""
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
        """Ends the restore: that was all."""
        if not self._whole:
            raise ValueError("the saved index has no producers")

    def _end(self, rest: ProducersSnapshot) -> None:
        if rest.pieces != self._taken:
            raise ValueError(f"{self._taken} pieces of producers, and {rest.pieces} were saved")
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
        raise ValueError(f"{len(snapshot.held)} bytes are no three columns")
    first, last, label = np.frombuffer(snapshot.held, "<u8").astype(np.uint64).reshape(3, -1)
    if len(first) and not (bool((first <= last).all()) and bool((last[:-1] < first[1:]).all())):
        raise ValueError("intervals out of order")
    rest: dict[str, Any] = {"past": tuple(snapshot.past), "token": snapshot.token, "calls": dict(snapshot.calls)}
    digests = _restored_digests(snapshot.digests)
    return ProducerState(**snapshot.values, **rest, intervals=Intervals(first, last, label), digests=digests)


def _restored_digests(packed: bytes) -> Digests:
    count, rest = divmod(len(packed), 12)
    if rest:
        raise ValueError(f"{len(packed)} bytes are no sequences with a digest each")
    sequences = np.frombuffer(packed, "<u8", count).astype(np.uint64)
    if not bool((sequences[:-1] < sequences[1:]).all()):
        raise ValueError("digests out of order")
    return (
        Digests(sequences, np.frombuffer(packed, "<u4", count, 8 * count).astype(np.uint32))
        if count
        else Digests.empty()
    )
