"""Brings a producer into any state by its entries, with short names for requests."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from oncegate.core.entries.kinds import Entry
from oncegate.core.entries.producers import (
    Acked,
    DriverRegistered,
    ProducerRegistered,
    Resolved,
    SequencesClaimed,
    SequencesCompleted,
    SequencesReleased,
)
from oncegate.core.verdicts import BY_BYTE
from oncegate.index.producers.apply import apply
from oncegate.index.producers.decide import SequenceDecision, decide
from oncegate.index.producers.intervals import flat
from oncegate.index.producers.store import ProducerState, ProducerStore

LEASE_MS = 10_000


def id16(number: int) -> bytes:
    return number.to_bytes(16, "big")


def u64(sequences: Iterable[int]) -> Any:
    return np.array(list(sequences), np.uint64)


def verdicts_of(asked: SequenceDecision) -> list[str]:
    """Returns the verdicts as words such as `GRANTED` or `GRANTED+TAKEOVER`; REFUSED for a byte that is never sent."""
    rows = [BY_BYTE.get(int(byte)) for byte in asked.verdicts]
    return [row.verdict.name + "".join(f"+{flag.name}" for flag in row.flags) if row else "REFUSED" for row in rows]


class Lane:
    """Producer "p" of driver "d", and its index. Every claim accepts everything that it is granted."""

    def __init__(self, store: ProducerStore | None = None) -> None:
        self.store = store if store is not None else ProducerStore()
        self.position = 0
        self.entries: list[Entry] = []
        self.apply(DriverRegistered("d", 1, id16(99), 0))

    @property
    def producer(self) -> ProducerState:
        return self.store.producers["p"]

    def apply(self, entry: Entry, now_ms: int = 0) -> Any:
        self.position += 1
        self.entries.append(entry)
        return apply(self.store, self.position, entry, now_ms)

    def register(self, token: int, driver: str = "d") -> Any:
        found = self.store.producers.get("p")
        epoch = 1 if found is None else found.epoch + 1
        return self.apply(ProducerRegistered("p", 7, epoch, id16(token), driver, LEASE_MS, 0))

    def decide(
        self, call: int, sequences: Sequence[int], prev: int | None = None, digests: Any = None
    ) -> SequenceDecision:
        wanted = u64(sequences)
        return decide(self.store, self.producer, call, digest(sequences), wanted, prev, digests)

    def claim(self, call: int, sequences: Sequence[int], digests: Any = None) -> Any:
        """Claims sequences, all of which are granted as fresh. `digests`: their payload digests, uint32."""
        decision = self.decide(call, sequences)
        kept = b"" if digests is None else digests.astype("<u4").tobytes()
        fresh, taken = decision.fresh.tobytes(), decision.taken.tobytes()
        epoch = self.producer.epoch
        return self.apply(SequencesClaimed(7, epoch, call, digest(sequences), LEASE_MS, 0, fresh, taken, kept))

    def complete(self, call: int) -> Any:
        return self.apply(SequencesCompleted(7, self.producer.epoch, call, 0))

    def release(self, call: int) -> Any:
        return self.apply(SequencesReleased(7, self.producer.epoch, call, 0))

    def resolve(self, first: int, last: int, is_done: bool) -> Any:
        return self.apply(Resolved(7, bytes(16), is_done, "ops", "seen", u64((first, last)).tobytes(), 0))

    def ack(self, upto: int) -> Any:
        return self.apply(Acked("d", 1, 0, flat({7: upto}), 0))


def digest(sequences: Sequence[int]) -> bytes:
    return hashlib.blake2b(u64(sequences).tobytes(), digest_size=16).digest()
