"""The index of producers as plain values, and back: what a collected ledger holds in place of old entries."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from oncegate.index.producers.apply import Call, Driver, Producer, ProducerStore
from oncegate.index.producers.intervals import Intervals

# What lives in memory only, and what is saved in a form of its own.
_APART = ("lease_until_ms", "quiet_call", "calls", "held", "past", "token")
_PLACES = [field.name for field in fields(Producer) if field.name not in _APART]


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
    """All of a ProducerStore, leases aside."""

    drivers: list[Driver]
    producers: list[ProducerSnapshot]
    takeovers: int


def snapshot(index: ProducerStore) -> ProducersSnapshot:
    """Returns all of it, for `restore`; to be encoded at once, for it changes with the index."""
    producers = [_snapshot(producer) for producer in index.producers.values()]
    return ProducersSnapshot(list(index.drivers.values()), producers, index.takeovers)


def restore(index: ProducerStore, snapshot: ProducersSnapshot) -> None:
    """Takes over what `snapshot` gave, in place of everything; `reset_leases` is to follow.

    Raises ValueError: it does not add up.
    """
    index.drivers = {driver.name: driver for driver in snapshot.drivers}
    index.producers, index.by_number = {}, {}
    for one in snapshot.producers:
        index.put(_restored(one))
    index.takeovers = snapshot.takeovers
    if len(index.by_number) != len(snapshot.producers) or len(index.producers) != len(snapshot.producers):
        raise ValueError("two producers have one name or number")


def _snapshot(producer: Producer) -> ProducerSnapshot:
    values = {name: getattr(producer, name) for name in _PLACES}
    held = producer.held
    columns = b"".join(column.astype("<u8").tobytes() for column in (held.first, held.last, held.label))
    calls = [(number, replace(call)) for number, call in producer.calls.items()]
    return ProducerSnapshot(values, list(producer.past), producer.token, calls, columns)


def _restored(snapshot: ProducerSnapshot) -> Producer:
    if len(snapshot.held) % 24:
        raise ValueError(f"{len(snapshot.held)} bytes are no three columns")
    first, last, label = np.frombuffer(snapshot.held, "<u8").astype(np.uint64).reshape(3, -1)
    if len(first) and not (bool((first <= last).all()) and bool((last[:-1] < first[1:]).all())):
        raise ValueError("intervals out of order")
    rest: dict[str, Any] = {"past": tuple(snapshot.past), "token": snapshot.token, "calls": dict(snapshot.calls)}
    return Producer(**snapshot.values, **rest, held=Intervals(first, last, label))
