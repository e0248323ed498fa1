"""Holds the open record of one shard's producers and drivers, and who changes each of its fields."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oncegate.arraytypes import U8
from oncegate.core.claims import ClaimState, LeaseExpiry
from oncegate.core.producers import ACK, AckEffect, Gaps, SequenceState, actions, sequence_table
from oncegate.index.producers.digests import Digests
from oncegate.index.producers.intervals import Intervals
from oncegate.moment import MomentCopy

# An interval's label: one of these kinds above 32 bits of the call that holds it, zeros where no call does.
# LEFT: claimed by an older epoch. TAKEN: held, and taken over from one. OWN: done in the epoch in force.
# GIVEN: given up by a person.
FREE, LEFT, HELD, TAKEN, DONE, OWN, GIVEN = range(1, 8)
# By kind of interval; of kind 0, in no interval, the sequence alone tells the state.
STATES = np.zeros(GIVEN + 1, np.uint8)
STATES[[FREE, LEFT, HELD, TAKEN, DONE, OWN, GIVEN]] = [
    SequenceState.FREE,
    *[SequenceState.CLAIMED] * 3,
    *[SequenceState.DONE] * 2,
    SequenceState.GIVEN_UP,
]


@dataclass(slots=True)
class Call:
    """Holds a call that was granted something: what it asked for, how much it was granted, what became of it."""

    digest: bytes
    granted: int
    state: ClaimState
    position: int


@dataclass(slots=True)
class Driver:
    """Holds what is known of one driver.

    `epoch` 0: nobody has registered yet. `batches`: those below are acked, but for `held_back`, rising. `past`: the
    tokens before this one.
    """

    name: str
    epoch: int = 0
    token: bytes = b""
    past: tuple[bytes, ...] = ()
    batches: int = 0
    held_back: tuple[int, ...] = ()
    position: int = 0

    def is_over(self, batch: int) -> bool:
        """Tells whether the batch was acked."""
        return batch < self.batches and batch not in self.held_back


@dataclass(slots=True)
class Producer:
    """Holds what is known of one producer.

    intervals: everything above `watermark` that was ever claimed, by label. last_call: the last that was granted.
    quiet_call: the last that was decided and granted nothing; it and `lease_until_ms` live in memory only.
    position: of the last entry about it. writer, writer_before: who registered this epoch, and the one before, as of
    `core.writers`; empty: it is not known. digests: of what sequences above `watermark` were granted with.
    """

    name: str
    number: int
    driver: str
    epoch: int = 0
    token: bytes = b""
    past: tuple[bytes, ...] = ()
    lease_ms: int = 0
    gaps: int = Gaps.ALLOW
    lease_until_ms: int = 0
    watermark: int | None = None
    claimed_to: int | None = None
    last_call: int = -1
    quiet_call: int = -1
    calls: dict[int, Call] = field(default_factory=dict)
    intervals: Intervals = field(default_factory=Intervals.empty)
    position: int = 0
    writer: bytes = b""
    writer_before: bytes = b""
    digests: Digests = field(default_factory=Digests.empty)

    def lease_left_ms(self, now_ms: int) -> int:
        """Returns the ms that are left of the lease, 0 when it has run out."""
        return max(0, self.lease_until_ms - now_ms)


class ProducerStore:
    """Holds all that one shard knows of its producers; every field is public, and each says who changes it.

    `producers.index` and `producers.decide` read it; `producers.apply` and `index.snapshot` (restore) change it. Leases
    and quiet calls, which no entry holds, are set by the engine. One thread at a time.

    rules: the table of sequences as an array, `ProducerAction` at `state * len(Asker) + asker`; changed by
    `let_expire`. blocks_ack: bool by kind of interval, what no ack passes over; never changed. producers, drivers: by
    name. by_number: the producers again; `put` files one in both.
    saved_producers, saved_drivers: told by `producers.apply` before one changes in place; None: no snapshot is made.
    takeovers: sequences ever granted by takeover. digests: how many sequences of all producers have one.
    """

    def __init__(self) -> None:
        self.let_expire(LeaseExpiry.TAKEOVER)
        refused = [ACK[state].effect is AckEffect.REFUSE_NOT_DONE for state in SequenceState]
        self.blocks_ack = np.array(refused)[STATES] & (np.arange(GIVEN + 1) > 0)
        self.producers: dict[str, Producer] = {}
        self.drivers: dict[str, Driver] = {}
        self.by_number: dict[int, Producer] = {}
        self.takeovers = 0
        self.digests = 0
        self.saved_producers: MomentCopy[str, Producer, Any] | None = None
        self.saved_drivers: MomentCopy[str, Driver, Any] | None = None

    def let_expire(self, expiry: LeaseExpiry) -> None:
        """Puts the table in force that says what becomes of what an older epoch left, from the next decision on."""
        self.rules: U8 = np.frombuffer(actions(sequence_table(expiry)), np.uint8)

    def changing(self, producer: Producer) -> None:
        """To be called before a producer is changed in place: a snapshot under way has it as it was."""
        if self.saved_producers is not None:
            self.saved_producers.changing(producer.name)

    def changing_driver(self, driver: Driver) -> None:
        """To be called before a driver is changed in place, likewise."""
        if self.saved_drivers is not None:
            self.saved_drivers.changing(driver.name)

    def put(self, producer: Producer) -> None:
        """Files a producer under its name and its number, in place of what stood there."""
        before = self.producers.get(producer.name)
        self.digests += len(producer.digests) - (0 if before is None else len(before.digests))
        self.producers[producer.name] = self.by_number[producer.number] = producer

    def keep_digests(self, producer: Producer, digests: Digests) -> None:
        """Gives a producer other digests, and counts them."""
        self.digests += len(digests) - len(producer.digests)
        producer.digests = digests

    def reset_leases(self, now_ms: int) -> None:
        """Gives every producer a full lease after a rebuild, for nobody knows how much of it was left."""
        for producer in self.producers.values():
            producer.lease_until_ms = now_ms + producer.lease_ms
