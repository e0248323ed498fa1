"""Folding entries into the index of producers, and taking them back: the only place where it changes."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from oncegate.arraytypes import U64
from oncegate.core.claims import ClaimState
from oncegate.core.entries.kinds import Entry
from oncegate.core.entries.producers import (
    Acked,
    DriverRegistered,
    ProducerRegistered,
    SequencesClaimed,
    SequencesCompleted,
    SequencesReleased,
)
from oncegate.index.producers.intervals import Intervals, count_of, raw_spans

Undo = Callable[[], None]
# An interval's label: one of these above 32 bits of the call that holds it, zeros where no call does.
# LEFT: claimed by an older epoch. TAKEN: held, and taken over from one. OWN: done in the epoch in force.
FREE, LEFT, HELD, TAKEN, DONE, OWN = range(1, 7)
# Who was followed and registers again, by a late copy of its request, is among the last few.
PAST_TOKENS = 8
# Settled calls that may still be repeated: far more than an attempt has in flight. Looked at when twice as many.
CALLS_KEPT = 256


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

    `epoch` 0: nobody has registered yet. `batches`: those below are acked. `past`: the tokens before this one."""

    name: str
    epoch: int = 0
    token: bytes = b""
    past: tuple[bytes, ...] = ()
    batches: int = 0
    position: int = 0


@dataclass(slots=True)
class Producer:
    """Holds what is known of one producer.

    `held`: everything above `watermark` that was ever claimed, by label. `last_call`: the last that was granted.

    quiet_call: the last that was decided and granted nothing; it and `lease_until_ms` live in memory only.
    position: of the last entry about it.
    """

    name: str
    number: int
    driver: str
    epoch: int = 0
    token: bytes = b""
    past: tuple[bytes, ...] = ()
    lease_ms: int = 0
    lease_until_ms: int = 0
    watermark: int | None = None
    claimed_to: int | None = None
    last_call: int = -1
    quiet_call: int = -1
    calls: dict[int, Call] = field(default_factory=dict)
    held: Intervals = field(default_factory=Intervals.empty)
    position: int = 0

    def lease_left_ms(self, now_ms: int) -> int:
        """Returns the ms that are left of the lease, 0 when it has run out."""
        return max(0, self.lease_until_ms - now_ms)


class ProducerStore:
    """Applies entries of producers and drivers to what is known of them, and takes them back.

    `takeovers`: sequences ever granted by takeover. `superseded`: how many settlings and acks this process has taken
    in: a lane is a few intervals, however many entries made them, so that a collected ledger is much shorter.
    """

    def __init__(self) -> None:
        self.producers: dict[str, Producer] = {}
        self.drivers: dict[str, Driver] = {}
        self.by_number: dict[int, Producer] = {}
        self.takeovers = self.superseded = 0

    def apply(self, position: int, entry: Entry, now_ms: int = 0) -> Undo | None:
        """Takes one entry in; returns what takes it back, newest first, or None when it says nothing about
        producers."""
        match entry:
            case DriverRegistered():
                return self._register_driver(position, entry)
            case ProducerRegistered():
                return self._register(position, entry, now_ms)
            case SequencesClaimed():
                return self._claim(position, entry, now_ms)
            case SequencesCompleted() | SequencesReleased():
                self.superseded += 1
                return self._settle(position, entry)
            case Acked():
                self.superseded += 1
                return self._ack(position, entry)
        return None

    def _register_driver(self, position: int, entry: DriverRegistered) -> Undo:
        before = self.drivers.get(entry.driver, Driver(entry.driver))
        known = entry.driver in self.drivers
        assert entry.epoch == before.epoch + 1, "epochs have no holes"
        past = (*before.past, before.token)[-PAST_TOKENS:] if before.epoch else ()
        self.drivers[entry.driver] = replace(before, epoch=entry.epoch, token=entry.token, past=past, position=position)

        def undo() -> None:
            if known:
                self.drivers[entry.driver] = before
            else:
                del self.drivers[entry.driver]

        return undo

    def _register(self, position: int, entry: ProducerRegistered, now_ms: int) -> Undo:
        """Marks what the epoch before held as left by it: its holder is fenced, and nobody settles it any more."""
        before = self.producers.get(entry.producer)
        old = before or Producer(entry.producer, entry.producer_id, entry.driver)
        assert (old.number, old.driver, old.epoch + 1) == (entry.producer_id, entry.driver, entry.epoch), "one by one"
        new = replace(
            old,
            epoch=entry.epoch,
            token=entry.token,
            past=(*old.past, old.token)[-PAST_TOKENS:] if old.epoch else (),
            lease_ms=entry.lease_ms,
            lease_until_ms=now_ms + entry.lease_ms,
            last_call=-1,
            quiet_call=-1,
            calls={},
            held=old.held.relabelled(_left(old.held.label)),
            position=position,
        )
        self.put(new)

        def undo() -> None:
            if before is not None:
                self.put(before)
            else:
                del self.producers[new.name], self.by_number[new.number]

        return undo

    def put(self, producer: Producer) -> None:
        """Files a producer under its name and its number, in place of what stood there."""
        self.producers[producer.name] = self.by_number[producer.number] = producer

    def _claim(self, position: int, entry: SequencesClaimed, now_ms: int) -> Undo:
        producer = self._current(entry)
        fresh, taken = raw_spans(entry.fresh), raw_spans(entry.taken)
        before = (producer.calls, producer.held, producer.claimed_to, producer.last_call, producer.position)
        lease = producer.lease_ms, producer.lease_until_ms
        held = producer.held.painted(fresh, HELD << 32 | entry.call).painted(taken, TAKEN << 32 | entry.call)
        highest = max(int(spans[-1, 1]) for spans in (fresh, taken) if len(spans))
        producer.calls = _kept(producer.calls)
        producer.calls[entry.call] = Call(entry.digest, count_of(fresh) + count_of(taken), ClaimState.OPEN, position)
        producer.held, producer.last_call, producer.position = held, entry.call, position
        producer.claimed_to = max(highest, -1 if producer.claimed_to is None else producer.claimed_to)
        producer.lease_ms, producer.lease_until_ms = entry.lease_ms, now_ms + entry.lease_ms
        self.takeovers += count_of(taken)

        def undo() -> None:
            producer.calls, producer.held, producer.claimed_to, producer.last_call, producer.position = before
            producer.calls.pop(entry.call, None)
            producer.lease_ms, producer.lease_until_ms = lease
            self.takeovers -= count_of(taken)

        return undo

    def _settle(self, position: int, entry: SequencesCompleted | SequencesReleased) -> Undo:
        producer = self._current(entry)
        call = producer.calls[entry.call]
        before = (producer.held, producer.position, call.state, call.position)
        is_done = isinstance(entry, SequencesCompleted)
        mine = producer.held.label & np.uint64(0xFFFF_FFFF) == np.uint64(entry.call)
        kinds = producer.held.label >> np.uint64(32)
        chosen = mine & ((kinds == HELD) | (kinds == TAKEN))
        producer.held = producer.held.painted(producer.held.spans(chosen), (OWN if is_done else FREE) << 32)
        call.state = ClaimState.DONE if is_done else ClaimState.RELEASED
        producer.position = call.position = position

        def undo() -> None:
            producer.held, producer.position, call.state, call.position = before

        return undo

    def _ack(self, position: int, entry: Acked) -> Undo:
        """The watermarks answer for everything that is forgotten here."""
        driver = self.drivers[entry.driver]
        moved = [(self.by_number[number], watermark) for number, watermark in raw_spans(entry.upto).tolist()]
        before = [(producer, producer.watermark, producer.held, producer.position) for producer, _ in moved]
        driver_before = driver.batches, driver.position
        driver.batches, driver.position = max(driver.batches, entry.batches), position
        for producer, watermark in moved:
            producer.watermark, producer.held = watermark, producer.held.above(watermark)
            producer.position = position

        def undo() -> None:
            driver.batches, driver.position = driver_before
            for producer, watermark, held, place in before:
                producer.watermark, producer.held, producer.position = watermark, held, place

        return undo

    def _current(self, entry: SequencesClaimed | SequencesCompleted | SequencesReleased) -> Producer:
        producer = self.by_number[entry.producer_id]
        assert producer.epoch == entry.epoch, "only the epoch in force claims and settles"
        return producer

    def reset_leases(self, now_ms: int) -> None:
        """Gives every holder a full lease after a rebuild, for nobody knows how much of it was left."""
        for producer in self.producers.values():
            producer.lease_until_ms = now_ms + producer.lease_ms


def _left(label: U64) -> U64:
    """Returns labels of an epoch as the next one sees them."""
    kinds = label >> np.uint64(32)
    held = (kinds == HELD) | (kinds == TAKEN)
    return np.where(held, np.uint64(LEFT << 32), np.where(kinds == OWN, np.uint64(DONE << 32), label))


def _kept(calls: dict[int, Call]) -> dict[int, Call]:
    """Returns the calls while they are few; else a new dictionary of the open ones, and the last of the others."""
    if len(calls) < 2 * CALLS_KEPT:
        return calls
    recent = set(list(calls)[-CALLS_KEPT:])
    return {number: call for number, call in calls.items() if call.state is ClaimState.OPEN or number in recent}
