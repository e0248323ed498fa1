"""Joins the pieces of a snapshot of producers and drivers."""

from dataclasses import dataclass

import msgspec

from oncegate.index.producers.snapshot import ProducerSnapshot, ProducersReader, ProducersSnapshot, snapshot_steps
from oncegate.index.producers.store import Driver, ProducerStore

Piece = tuple[str, bytes]


@dataclass(frozen=True)
class Saved:
    producers: list[ProducerSnapshot]
    drivers: list[Driver]
    takeovers: int


def pieces_of(store: ProducerStore) -> list[Piece]:
    return [piece for step in snapshot_steps(store) for piece in step]


def seen_in(pieces: list[Piece]) -> Saved:
    producers, drivers, takeovers = list[ProducerSnapshot](), list[Driver](), 0
    for what, data in pieces:
        if what == "producers":
            takeovers = msgspec.msgpack.decode(data, type=ProducersSnapshot).takeovers
        elif what.startswith("producers/"):
            producers += msgspec.msgpack.decode(data, type=list[ProducerSnapshot])
        else:
            drivers += msgspec.msgpack.decode(data, type=list[Driver])
    return Saved(producers, drivers, takeovers)


def saved(store: ProducerStore) -> Saved:
    return seen_in(pieces_of(store))


def restored(pieces: list[Piece]) -> ProducerStore:
    store = ProducerStore()
    reader = ProducersReader(store)
    for what, data in pieces:
        reader.take(what, data)
    reader.finish()
    return store
