"""Turns the index of producers into plain values, and back: what a compacted ledger holds in place of old entries."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from oncegate.index.producers.intervals import Intervals
from oncegate.index.producers.store import Call, Driver, Producer, ProducerStore

# What lives in memory only, and what is saved in a form of its own.
_OTHER_FIELDS = ("lease_until_ms", "quiet_call", "calls", "intervals", "past", "token")
_PLAIN_FIELDS = [field.name for field in fields(Producer) if field.name not in _OTHER_FIELDS]


@dataclass(frozen=True, slots=True)
class ProducerSnapshot:
    """Describes one producer as a snapshot holds it.

    `held`: three little-endian uint64 columns, first, last, label, one after the other.
    """

    values: dict[str, Any]
    past: list[bytes]
    token: bytes
    calls: list[tuple[int, Call]]
    held: bytes


@dataclass(frozen=True, slots=True)
class ProducersSnapshot:
    """Holds all of a ProducerStore, leases aside."""

    drivers: list[Driver]
    producers: list[ProducerSnapshot]
    takeovers: int


def snapshot(store: ProducerStore) -> ProducersSnapshot:
    """Returns all of it, for `restore`; to be encoded at once, for it changes with the store."""
    producers = [_snapshot(producer) for producer in store.producers.values()]
    return ProducersSnapshot(list(store.drivers.values()), producers, store.takeovers)


def restore(store: ProducerStore, snapshot: ProducersSnapshot) -> None:
    """Takes over what `snapshot` gave, in place of everything; `reset_leases` is to follow.

    Raises ValueError: it does not add up.
    """
    store.drivers = {driver.name: driver for driver in snapshot.drivers}
    store.producers, store.by_number = {}, {}
    for one in snapshot.producers:
        store.put(_restored(one))
    store.takeovers = snapshot.takeovers
    if len(store.by_number) != len(snapshot.producers) or len(store.producers) != len(snapshot.producers):
        raise ValueError("two producers have one name or number")


def _snapshot(producer: Producer) -> ProducerSnapshot:
    values = {name: getattr(producer, name) for name in _PLAIN_FIELDS}
    intervals = producer.intervals
    columns = (intervals.first, intervals.last, intervals.label)
    packed = b"".join(column.astype("<u8").tobytes() for column in columns)
    calls = [(number, replace(call)) for number, call in producer.calls.items()]
    return ProducerSnapshot(values, list(producer.past), producer.token, calls, packed)


def _restored(snapshot: ProducerSnapshot) -> Producer:
    if len(snapshot.held) % 24:
        raise ValueError(f"{len(snapshot.held)} bytes are no three columns")
    first, last, label = np.frombuffer(snapshot.held, "<u8").astype(np.uint64).reshape(3, -1)
    if len(first) and not (bool((first <= last).all()) and bool((last[:-1] < first[1:]).all())):
        raise ValueError("intervals out of order")
    rest: dict[str, Any] = {"past": tuple(snapshot.past), "token": snapshot.token, "calls": dict(snapshot.calls)}
    return Producer(**snapshot.values, **rest, intervals=Intervals(first, last, label))
