"""Answers for the producers and drivers of one shard: epochs, watermarks, which sequences are held or done.

A pure function of the ledger's entries. `decide` changes nothing; `apply` takes an entry in, the same way live and in
replay, and returns what takes it back. Leases live in memory only, by `now_ms`, monotonic. Intervals per producer,
never a row per sequence.
"""

import numpy as np

from oncegate.arraytypes import U32, U64
from oncegate.core.claims import ClaimState
from oncegate.core.entries.kinds import Entry
from oncegate.core.producers import ACK, AckEffect, SequenceState
from oncegate.index.producers.apply import Undo, apply
from oncegate.index.producers.decide import SequenceDecision, decide
from oncegate.index.producers.store import DONE, GIVEN, OWN, Driver, Producer, ProducerStore
from oncegate.index.source_ids import SourceIds

# The most intervals of what is done that a registration is answered with: some 20 kB of JSON.
DONE_INTERVALS_MAX = 1_000


class ProducerIndex:
    """Answers for the producers and drivers of one shard, over its `store`.

    source_ids: of what the sequences of producers and lanes are; it applies entries by itself.
    """

    def __init__(self) -> None:
        self.store = ProducerStore()
        self.source_ids = SourceIds()

    def decide(
        self,
        producer: Producer,
        call: int,
        digest: bytes,
        sequences: U64,
        prev: int | None,
        digests: U32 | None = None,
    ) -> SequenceDecision:
        """Decides what each of `sequences`, uint64[n], is answered now, as `producers.decide` does. No effect.

        Raises TokenReused.
        """
        return decide(self.store, producer, call, digest, sequences, prev, digests)

    def apply(self, position: int, entry: Entry, now_ms: int = 0) -> Undo | None:
        """Applies one entry; returns what takes it back, the newest first, or None when it is about no producer."""
        return apply(self.store, position, entry, now_ms)

    def reset_leases(self, now_ms: int) -> None:
        """Gives every producer a full lease after a rebuild, for nobody knows how much of it was left."""
        self.store.reset_leases(now_ms)

    @property
    def producers(self) -> dict[str, Producer]:
        """Returns the producers by name, the store's own."""
        return self.store.producers

    @property
    def drivers(self) -> dict[str, Driver]:
        """Returns the drivers by name, the store's own."""
        return self.store.drivers

    @property
    def unacked(self) -> int:
        """Counts the sequences from each producer's watermark to the highest that it claimed; a step a producer."""
        return sum(
            producer.claimed_to - (-1 if producer.watermark is None else producer.watermark)
            for producer in self.producers.values()
            if producer.claimed_to is not None
        )

    @property
    def takeovers(self) -> int:
        """Counts the sequences that were ever granted by takeover."""
        return self.store.takeovers

    def call_state(self, producer: Producer, call: int) -> ClaimState:
        """Returns what is known about a call of the epoch in force."""
        earlier = producer.calls.get(call)
        return ClaimState.UNKNOWN if earlier is None else earlier.state

    def done(self, producer: Producer) -> U64:
        """Returns the intervals above the watermark that are done, shape (k, 2), in order."""
        kinds = producer.intervals.label >> np.uint64(32)
        done = np.where((kinds == DONE) | (kinds == OWN), np.uint64(DONE << 32), np.uint64(0))
        joined = producer.intervals.relabelled(done)
        return np.stack((joined.first, joined.last), axis=1)

    def undone(self, producer: Producer, upto: int | None = None) -> U64:
        """Returns the intervals up to `upto` that an ack may not pass over, shape (k, 2), in order; the last may go
        on."""
        blocks = self.store.blocks_ack[(producer.intervals.label >> np.uint64(32)).astype(np.intp)]
        if upto is not None:
            blocks = blocks & (producer.intervals.first <= np.uint64(upto))
        return producer.intervals.spans(blocks)

    def unfinished(self, producer: Producer) -> U64:
        """Returns the intervals that were claimed and are not done, those given up too, shape (k, 2), in order."""
        kinds = producer.intervals.label >> np.uint64(32)
        return producer.intervals.spans(self.store.blocks_ack[kinds.astype(np.intp)] | (kinds == GIVEN))

    def watermark_after(self, producer: Producer, sequence: int) -> int | None:
        """Returns the watermark once `sequence` is acked, which nothing holds up; None: it stays where it is."""
        reached = producer.claimed_to
        if ACK[SequenceState.ABSENT].effect is not AckEffect.STOP_BELOW or (reached is not None and sequence < reached):
            reached = sequence
        is_stale = reached is not None and producer.watermark is not None and reached <= producer.watermark
        return None if is_stale and ACK[SequenceState.STALE].effect is AckEffect.NOTHING else reached

    def resume_after(self, producer: Producer) -> int | None:
        """Returns the highest sequence such that everything that was claimed up to it is done; None when there is
        none."""
        undone = self.unfinished(producer)
        if not len(undone):
            return producer.claimed_to
        done = producer.intervals.last[producer.intervals.last < undone[0, 0]]
        return int(done[-1]) if len(done) else producer.watermark
