"""Holds one shard's producers and drivers, with the writers of each field."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oncegate.arraytypes import U8, U64
from oncegate.core.claims import ClaimState, LeaseExpiry
from oncegate.core.producers import ACK, AckEffect, Gaps, SequenceState, actions, sequence_table
from oncegate.index.producers.digests import Digests
from oncegate.index.producers.intervals import Intervals
from oncegate.moment import MomentCopy

# An interval's label: one of these kinds above 32 bits of the call that holds it, or zeros if no call does. LEFT:
# claimed by an older epoch. TAKEN: held, and taken over from an older epoch. OWN: done in the epoch in force. GIVEN:
# given up by a person.
FREE, LEFT, HELD, TAKEN, DONE, OWN, GIVEN = range(1, 8)
# By kind of interval. The state of kind 0, in no interval, follows from the sequence alone.
STATES = np.zeros(GIVEN + 1, np.uint8)
STATES[[FREE, LEFT, HELD, TAKEN, DONE, OWN, GIVEN]] = [
    SequenceState.FREE,
    *[SequenceState.CLAIMED] * 3,
    *[SequenceState.DONE] * 2,
    SequenceState.GIVEN_UP,
]
# Maximum number of done intervals in the answer to a registration: some 20 kB of JSON.
DONE_INTERVALS_MAX = 1_000


@dataclass(slots=True)
class ProducerCall:
    """A call that was granted sequences: its request's digest, the number granted, and its state."""

    digest: bytes
    granted: int
    state: ClaimState
    position: int


@dataclass(slots=True)
class Driver:
    """The state of one driver.

    epoch: 0: it has not registered yet.
    batches: batches below it are acked, except `held_back`, rising.
    past: the tokens before this one.
    """

    name: str
    epoch: int = 0
    token: bytes = b""
    past: tuple[bytes, ...] = ()
    batches: int = 0
    held_back: tuple[int, ...] = ()
    position: int = 0

    def is_over(self, batch: int) -> bool:
        """Returns whether the batch was acked."""
        return batch < self.batches and batch not in self.held_back


@dataclass(slots=True)
class ProducerState:
    """The state of one producer.

    intervals: everything above `watermark` that was ever claimed, by label.
    last_call: the last call that was granted something.
    quiet_call: the last call that was decided and granted nothing; in memory only, like `lease_until_ms`.
    position: of the last entry about it.
    writer, writer_before: writers of this epoch's registration and of the previous one, encoded by `core.writers`;
    empty: unknown.
    digests: of the payloads with which sequences above `watermark` were granted.
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
    calls: dict[int, ProducerCall] = field(default_factory=dict)
    intervals: Intervals = field(default_factory=Intervals.empty)
    position: int = 0
    writer: bytes = b""
    writer_before: bytes = b""
    digests: Digests = field(default_factory=Digests.empty)

    def lease_left_ms(self, now_ms: int) -> int:
        """Returns the remaining lease in ms; 0 if it has expired."""
        return max(0, self.lease_until_ms - now_ms)

    def call_state(self, call: int) -> ClaimState:
        """Returns the state of a call in the current epoch."""
        earlier = self.calls.get(call)
        return ClaimState.UNKNOWN if earlier is None else earlier.state

    def done(self) -> U64:
        """Returns the done intervals above the watermark, shape (k, 2), in order."""
        kinds = self.intervals.label >> np.uint64(32)
        done = np.where((kinds == DONE) | (kinds == OWN), np.uint64(DONE << 32), np.uint64(0))
        joined = self.intervals.relabelled(done)
        return np.stack((joined.first, joined.last), axis=1)

    def watermark_after(self, sequence: int) -> int | None:
        """Returns the watermark after an ack of `sequence` that nothing blocks; None if it does not move."""
        reached = self.claimed_to
        if ACK[SequenceState.ABSENT].effect is not AckEffect.STOP_BELOW or (reached is not None and sequence < reached):
            reached = sequence
        is_stale = reached is not None and self.watermark is not None and reached <= self.watermark
        return None if is_stale and ACK[SequenceState.STALE].effect is AckEffect.NOTHING else reached


class ProducerStore:
    """The producers of one shard. All fields are public; each has its writers listed here.

    `producers.decide` reads the store. `producers.apply` and `index.snapshot` (restore) change it. The engine sets
    leases and quiet calls, which no entry holds. One thread at a time.

    rules: the table of sequences as an array, `ProducerAction` at `state * len(ProducerAsker) + asker`; changed by
    `let_expire`.
    blocks_ack: bool by kind of interval: an ack may not cover it; never changed.
    producers, drivers: by name. by_number: the producers again; `put` stores a producer in both.
    saved_producers, saved_drivers: notified by `producers.apply` before it changes one in place; None: no snapshot is
    being made.
    takeovers: number of sequences ever granted by takeover.
    digests: number of sequences of all producers that have one.
    """

    def __init__(self) -> None:
        self.let_expire(LeaseExpiry.TAKEOVER)
        refused = [ACK[state].effect is AckEffect.REFUSE_NOT_DONE for state in SequenceState]
        self.blocks_ack = np.array(refused)[STATES] & (np.arange(GIVEN + 1) > 0)
        self.producers: dict[str, ProducerState] = {}
        self.drivers: dict[str, Driver] = {}
        self.by_number: dict[int, ProducerState] = {}
        self.takeovers = 0
        self.digests = 0
        self.saved_producers: MomentCopy[str, ProducerState, Any] | None = None
        self.saved_drivers: MomentCopy[str, Driver, Any] | None = None

    def let_expire(self, expiry: LeaseExpiry) -> None:
        """Applies the namespace's `lease_expiry` setting to claims of older epochs, from the next decision on."""
        self.rules: U8 = np.frombuffer(actions(sequence_table(expiry)), np.uint8)

    def changing(self, producer: ProducerState) -> None:
        """Copies a producer for the current snapshot. Call it before changing the producer in place."""
        if self.saved_producers is not None:
            self.saved_producers.changing(producer.name)

    def changing_driver(self, driver: Driver) -> None:
        """Copies a driver for the current snapshot. Call it before changing the driver in place."""
        if self.saved_drivers is not None:
            self.saved_drivers.changing(driver.name)

    def put(self, producer: ProducerState) -> None:
        """Stores a producer under its name and its number, replacing an earlier state."""
        before = self.producers.get(producer.name)
        self.digests += len(producer.digests) - (0 if before is None else len(before.digests))
        self.producers[producer.name] = self.by_number[producer.number] = producer

    def keep_digests(self, producer: ProducerState, digests: Digests) -> None:
        """Replaces a producer's digests and counts them."""
        self.digests += len(digests) - len(producer.digests)
        producer.digests = digests

    @property
    def unacked(self) -> int:
        """Counts the sequences from each producer's watermark to the highest one that it claimed. Takes one step per
        producer.
        """
        return sum(
            producer.claimed_to - (-1 if producer.watermark is None else producer.watermark)
            for producer in self.producers.values()
            if producer.claimed_to is not None
        )

    def undone(self, producer: ProducerState, upto: int | None = None) -> U64:
        """Returns the intervals up to `upto` that an ack may not cover, shape (k, 2), in order. The last may extend
        beyond it.
        """
        blocks = self.blocks_ack[(producer.intervals.label >> np.uint64(32)).astype(np.intp)]
        if upto is not None:
            blocks = blocks & (producer.intervals.first <= np.uint64(upto))
        return producer.intervals.spans(blocks)

    def unfinished(self, producer: ProducerState) -> U64:
        """Returns the intervals that were claimed but are not done, including abandoned ones, shape (k, 2), in
        order.
        """
        kinds = producer.intervals.label >> np.uint64(32)
        return producer.intervals.spans(self.blocks_ack[kinds.astype(np.intp)] | (kinds == GIVEN))

    def resume_after(self, producer: ProducerState) -> int | None:
        """Returns the highest sequence up to which everything that was claimed is done; None if there is none."""
        undone = self.unfinished(producer)
        if not len(undone):
            return producer.claimed_to
        done = producer.intervals.last[producer.intervals.last < undone[0, 0]]
        return int(done[-1]) if len(done) else producer.watermark

    def reset_leases(self, now_ms: int) -> None:
        """Gives every producer a full lease after a rebuild, since the rest of its lease is unknown."""
        for producer in self.producers.values():
            producer.lease_until_ms = now_ms + producer.lease_ms
